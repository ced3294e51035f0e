"""Hugging Face's Trainer, under an unmodified ``torchrun train.py``."""

from __future__ import annotations

import torch
from digits import BATCH, arguments, load, result
from torch.nn.functional import cross_entropy
from transformers import Trainer, TrainingArguments

import charterer_trainer
from charterer_trainer.huggingface import Callback, batch_arguments, newest


class Net(torch.nn.Module):
    """A small one; any model of transformers has this form."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))

    def forward(self, pixels: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """The loss and the scores."""
        scores = self.layers(pixels)
        return {"loss": cross_entropy(scores, labels), "logits": scores}


def main() -> None:
    """Train until all steps are done, or until asked to stop."""
    given = arguments()
    with charterer_trainer.run():
        torch.set_num_threads(1)
        torch.manual_seed(given.seed)
        learned_from, tested_with = load()
        train = [{"pixels": pixels, "labels": label} for pixels, label in zip(*learned_from, strict=True)]
        trainer = Trainer(
            Net(),
            TrainingArguments(
                given.checkpoints,
                max_steps=given.steps,
                seed=given.seed,
                optim="sgd",
                optim_args="momentum=0.9",
                learning_rate=0.1,
                max_grad_norm=0.0,
                lr_scheduler_type="constant",
                save_strategy="no",  # the callback says when
                report_to="none",
                disable_tqdm=True,
                use_cpu=not torch.cuda.is_available(),
                **batch_arguments(BATCH, most=30),
            ),
            train_dataset=train,
        )
        trainer.add_callback(Callback(trainer, own_batch=BATCH, keep=2))
        checkpoint = newest(given.checkpoints)
        if trainer.is_world_process_zero():
            print(f"begins at {checkpoint or 'step 0'} with {trainer.args.world_size} ranks", flush=True)
        trainer.train(resume_from_checkpoint=checkpoint)
        if trainer.is_world_process_zero():
            with torch.no_grad():
                pixels, labels = map(torch.from_numpy, learned_from)
                test_pixels, test_labels = map(torch.from_numpy, tested_with)
                net = trainer.model.cpu()
                loss = net(pixels, labels)["loss"].item()
                accuracy = (net(test_pixels, test_labels)["logits"].argmax(1) == test_labels).float().mean().item()
            print(result(trainer.state.global_step, loss, accuracy), flush=True)


if __name__ == "__main__":
    main()
