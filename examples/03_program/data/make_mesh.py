"""Write ../mesh.inp: 40 bricks with incompatible modes (C3D8I) along a cantilever of 1 m x 30 mm x 10 mm."""

from itertools import product
from pathlib import Path

N, LENGTH, WIDTH, THICKNESS = 40, 1.0, 0.03, 0.01
SECTION = [(0, 0), (1, 0), (1, 1), (0, 1)]  # y, z


def node(i, j, k):
    return 4 * i + 2 * j + k + 1


lines = ["*NODE, NSET=ALL"]
for i, j, k in product(range(N + 1), range(2), range(2)):
    lines.append(
        f"{node(i, j, k)}, {LENGTH * i / N:.6g}, {WIDTH * (j - 0.5):.6g}, {THICKNESS * (k - 0.5):.6g}"
    )
lines.append("*ELEMENT, TYPE=C3D8I, ELSET=BEAM")
for i in range(N):
    corners = [node(i + a, j, k) for k in (0, 1) for a, j in ((0, 0), (1, 0), (1, 1), (0, 1))]
    lines.append(", ".join(map(str, [i + 1, *corners])))
for name, i in (("ROOT", 0), ("TIP", N)):
    lines += [f"*NSET, NSET={name}", ", ".join(str(node(i, j, k)) for j, k in SECTION)]
lines += ["*NSET, NSET=CORNER", str(node(N, 0, 0))]
(Path(__file__).parent.parent / "mesh.inp").write_text("\n".join(lines) + "\n")
