"""Lightning's Trainer, under an unmodified ``torchrun train.py``."""

from __future__ import annotations

import os

import lightning
import torch
from digits import BATCH, TRAINED_ON, arguments, load, result
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import charterer_trainer
from charterer_trainer.lightning import Callback


class Net(lightning.LightningModule):
    """A small one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        """The loss of this rank's share."""
        pixels, labels = batch
        return cross_entropy(self.layers(pixels), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """As in the other examples."""
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def main() -> None:
    """Train until all steps are done, or until asked to stop."""
    given = arguments()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    with charterer_trainer.run():
        torch.set_num_threads(1)
        torch.manual_seed(given.seed)
        train, test = (TensorDataset(*map(torch.from_numpy, part)) for part in load())
        batches = charterer_trainer.Batches(TRAINED_ON, BATCH, rank=rank, world=world, most=30, seed=given.seed)
        charterer = Callback(given.checkpoints, batch=BATCH, own_batch=BATCH)
        checkpoint = charterer.newest()
        step = torch.load(checkpoint, weights_only=False)["global_step"] if checkpoint else 0
        if rank == 0:
            print(f"begins at step {step} with {world} ranks", flush=True)
        pods = charterer_trainer.allocation()
        trainer = lightning.Trainer(
            accelerator="auto" if torch.cuda.is_available() else "cpu",
            devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
            num_nodes=pods.pods if pods else 1,
            strategy="ddp" if world > 1 else "auto",
            max_steps=given.steps,
            accumulate_grad_batches=batches.passes,
            use_distributed_sampler=False,  # the samples are those of ``batches``
            enable_checkpointing=False,  # the callback saves
            enable_progress_bar=False,
            enable_model_summary=False,
            logger=False,
            callbacks=[charterer],
        )
        net = Net()
        loader = DataLoader(train, batch_sampler=batches.sampler(step, given.steps))
        trainer.fit(net, loader, ckpt_path=checkpoint)
        if rank == 0:
            with torch.no_grad():
                pixels, labels = train.tensors
                loss = cross_entropy(net.layers(pixels), labels).item()
                pixels, labels = test.tensors
                accuracy = (net.layers(pixels).argmax(1) == labels).float().mean().item()
            print(result(trainer.global_step, loss, accuracy), flush=True)


if __name__ == "__main__":
    main()
