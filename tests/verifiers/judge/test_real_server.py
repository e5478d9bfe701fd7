"""A real vLLM server on loopback as the judge, with the demo's model of three megabytes."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.judge.verifier import JudgeVerifier
from tests.launch import REPOSITORY

BOOT_SECONDS = 180
EXPERT = {"type": "function_call", "name": "ls", "arguments": '{"path": "/a"}'}


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", REPOSITORY / "pivotrl/demo/base"]
    command += ["--served-model-name", "judge", "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    command += ["--enforce-eager", "--max-model-len", "4096", "--max-num-seqs", "8"]
    environment = {
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"
    }  # a question is longer than the 1024 tokens of the demo's model
    environment |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
    environment |= {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(list(map(str, command)), stdout=output, stderr=output, env=os.environ | environment)
    try:
        deadline = time.monotonic() + BOOT_SECONDS
        while not is_healthy(f"http://127.0.0.1:{port}/health"):
            assert server.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def is_healthy(url):
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(url, timeout=5).status == 200
    except OSError:
        return False


@pytest.mark.slow
def test_a_vllm_server_judges(endpoint, tmp_path):
    def judging(**params):
        return JudgeVerifier({"endpoint": endpoint, "model": "judge", "max_tokens": 40, **params})

    jobs = [(attempt({"path": f"/{index}"}), None) for index in range(24)]

    # The demo's model cannot write a verdict line of its own accord, and what it writes instead is none.
    free = judging(cache=str(tmp_path))
    found = free.verify(jobs[0][0])
    assert (found.reward, found.reason) == (0, "judge_unclear")
    usage = free.usage()
    assert usage["questions"] == 2
    assert usage["prompt_tokens"] > 400
    assert usage["completion_tokens"] > 0
    again = judging(cache=str(tmp_path))
    assert again.verify(jobs[0][0]) == found
    assert again.usage() == {"questions": 0, "cache_hits": 2, "prompt_tokens": 0, "completion_tokens": 0, "price": 0}

    # Held to the two lines it always gives a verdict, and at temperature 1 gives both.
    guided = judging(guided=True, temperature=1.0, both_orders=False)
    reasons = {verdict.reason for verdict in guided.verify_all(jobs)}
    assert reasons == {"judge_same", "judge_different"}
    ordered = judging(guided=True, concurrency=8)
    found = ordered.verify_all(jobs[:4])
    assert {verdict.reason for verdict in found} <= {"judge_same", "judge_different", "judge_disagrees"}
    assert ordered.usage()["questions"] == 8

    # What does not fit into its context is no verdict, and no fault of the operator's.
    assert judging(retries=0).verify(attempt({"path": "x y " * 4000})).reason == "judge_unclear"
    with pytest.raises(ValueError, match=r"HTTP 404 .*correct verifier\.params\.model"):
        judging(model="other").verify(jobs[0][0])


def attempt(arguments):
    return Attempt(EXPERT, [{"type": "function_call", "name": "ls", "arguments": json.dumps(arguments)}])
