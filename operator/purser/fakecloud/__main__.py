"""``python -m purser.fakecloud``."""

from purser.fakecloud.main import main

main(prog_name="purser fakecloud")
