"""What policies can do, measured on the same held-out turns, live tasks and questions, and compared.

`measure.evaluate` measures the policy in a session, `weights.load_into` brings another one into it, `compare.compare`
sets results side by side with intervals, and `report.write` makes files of them. `tools/evaluate.py` does it all.
"""
