"""Writes a trained network as `dream.onnx`, its weights in half precision: python export.py

This needs `pip install onnx onnxscript`, which neither the training nor the model needs.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch
from maze import KEYS, SIZE
from network import PAST, Dreamer
from onnx import helper, numpy_helper

HERE = Path(__file__).parent
LICENCE = "Weights of reactor-trio's examples/dream, Apache-2.0, trained from the game of maze.py alone."


def export(network: Dreamer, path: Path) -> None:
    # Of two pictures: torch would take a batch of one for a constant.
    inputs = (torch.zeros(2, PAST * 3, SIZE, SIZE), torch.zeros(2, PAST * len(KEYS)), torch.zeros(2, 1))
    names = ["past", "keys", "noise"]
    batch = torch.export.Dim("batch")
    program = torch.onnx.export(
        network.eval(), inputs, input_names=names, output_names=["picture"],
        dynamic_shapes=({0: batch}, {0: batch}, {0: batch}), dynamo=True, external_data=False,
    )  # fmt: skip
    model = program.model_proto
    halve(model.graph)
    model.doc_string = LICENCE
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def halve(graph: onnx.GraphProto) -> None:
    """Keep the weights as float16; they become float32 again when the model is loaded."""
    casts = []
    for weights in graph.initializer:
        if weights.data_type != onnx.TensorProto.FLOAT:
            continue
        name = weights.name
        half = numpy_helper.from_array(numpy_helper.to_array(weights).astype(np.float16), f"{name}.half")
        weights.CopyFrom(half)
        casts.append(helper.make_node("Cast", [half.name], [name], to=onnx.TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, default=HERE / "training" / "checkpoint.pt")
    parser.add_argument("--out", type=Path, default=HERE / "dream.onnx")
    options = parser.parse_args()
    network = Dreamer()
    network.load_state_dict(torch.load(options.checkpoint)["average"])
    export(network, options.out)
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB")
