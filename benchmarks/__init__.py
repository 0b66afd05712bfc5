"""What the runtime adds to a model: `python -m benchmarks [pacing|overhead|cycles|all] [--json F] [--quick]`.

Each figure stands beside the same measurement of the barest program that does the same work, taken in the same run and in
turns, because a machine's load changes from one minute to the next. Compare the two columns, not two runs.
"""
