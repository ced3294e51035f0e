"""What an owner would say of the models of Pollux, Sia and Gavel, as far as their papers and programs do."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.domain.profile import ModelFacts

FLOPS: Mapping[str, float] = {
    "ResNet-18": 6 * 0.56e9,
    "ResNet-50": 6 * 4.09e9,
    "LM": 6 * 35 * (2 * 4 * 2 * 200 * 200 + 200 * 33_278),
    "Transformer": 6 * 14 * 49e6,
    "cifar10": 6 * 0.56e9,
    "imagenet": 6 * 4.09e9,
    "yolov3": 6 * 32.9e9,
    "bert": 6 * (85e6 * 384 + 2 * 12 * 384 * 384 * 768),
}
"""Of a training step for a sample: six for each multiply-add of the forward pass. ResNets of 32 and 224 pixels (He et
al. 2016), YOLOv3 of 416 (Redmon and Farhadi 2018), BERT's base model of 384 tokens without embeddings (Devlin et al.
2019), PyTorch's example of a language model (two LSTMs of 200, Wikitext-2) of 35 tokens, the Transformer (Vaswani et
al. 2017) of 14, as Multi30k's sentences have."""
PARAMETERS: Mapping[str, float] = {
    "ResNet-18": 11.2e6,
    "ResNet-50": 25.6e6,
    "LM": 14e6,
    "Transformer": 54e6,
    "cifar10": 11.2e6,
    "imagenet": 25.6e6,
    "yolov3": 61.9e6,
    "bert": 110e6,
}
"""From the same sources. Nothing is known of Pollux's ncf and deepspeech2, and nothing declared."""


def model_of(application: str) -> ModelFacts:
    """By the name of an application, with or without its batch size. A family is one program."""
    model = application.split(" (", maxsplit=1)[0]
    return ModelFacts(model, FLOPS.get(model), PARAMETERS.get(model))
