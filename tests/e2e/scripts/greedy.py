"""Takes ever more memory."""

taken = []
while True:
    taken.append(bytearray(1 << 20))
