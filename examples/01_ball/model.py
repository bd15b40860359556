"""A ball dropped on a floor, with restitution and air drag: free flights in closed form, bounce after bounce."""

import numpy as np

import tamis

G = 9.81
T = np.linspace(0.0, 1.5, 151)


def heights(e, drag, h0):
    """Heights of n balls at the times T, (n, 151): rise at v up to an apex, then fall from it."""
    k = np.maximum(drag, 1e-9)
    vt = np.sqrt(G / k)  # terminal speed
    starts, speeds, apexes = [np.zeros_like(h0)], [np.zeros_like(h0)], [h0]
    while (starts[-1] < T[-1]).any() and len(starts) < 100:  # one more flight
        down = np.arccosh(np.exp(k * apexes[-1]))  # time of the fall, times G / vt
        starts.append(starts[-1] + vt / G * (np.arctan(speeds[-1] / vt) + down))
        speeds.append(e * vt * np.tanh(down))
        apexes.append(np.log1p((speeds[-1] / vt) ** 2) / (2 * k))
    flight = sum((start[:, None] <= T).astype(int) for start in starts[1:])  # which one each time belongs to
    start, v, apex = (np.take_along_axis(np.array(a), flight.T, 0).T for a in (starts, speeds, apexes))
    k, vt = k[:, None], vt[:, None]
    phase = G / vt * (T - start) - np.arctan(v / vt)  # zero at the apex
    return np.maximum(
        apex + np.log(np.cos(np.minimum(phase, 0.0)) / np.cosh(np.maximum(phase, 0.0))) / k, 0.0
    )


@tamis.simulator(outputs={"t": "s", "z": "m"}, units={"h0": "m", "drag": "1/m"})
def ball(*, e=0.8, drag=0.05, h0=1.0):
    """Ball dropped from h0 on a floor: restitution e, quadratic drag."""
    return {"t": T, "z": heights(*(np.array([v]) for v in (e, drag, h0)))[0]}


@ball.batch
def many(e, drag, h0):
    return {"t": np.broadcast_to(T, (len(e), len(T))), "z": heights(e, drag, h0)}
