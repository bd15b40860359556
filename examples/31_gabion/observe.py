"""What is read of the signals of a run: numbers of each impact, and what accelerations have in common."""

import numpy as np

IMPACTS = 2
CUTOFF = 600.0  # Hz, second-order Butterworth filter of Dimnet et al. (2013)


def filtered(t, signal):
    """Return a signal through the paper's filter, forwards in time."""
    from scipy.signal import butter, sosfilt

    rate = 1.0 / (t[1] - t[0])
    if rate <= 2.0 * CUTOFF:
        raise ValueError(
            f"a filter of {CUTOFF:g} Hz needs more than {2 * CUTOFF:g} samples a second, found {rate:g}"
        )
    return sosfilt(butter(2, CUTOFF, fs=rate, output="sos"), signal)


def behind(outputs):
    """Return the force behind the central gabion, impact by impact."""
    total = sum(filtered(outputs["t"], outputs[name]) for name in ("f1", "f2", "f3", "f4"))
    return total.reshape(IMPACTS, -1)


def forces(outputs):
    return behind(outputs).max(axis=1)


def displacements(outputs):
    return outputs["back"].reshape(IMPACTS, -1).max(axis=1)


def durations(outputs):
    """Return for how long the force is above a tenth of its peak."""
    force = behind(outputs)
    return (outputs["t"][1] - outputs["t"][0]) * np.sum(force > 0.1 * force.max(axis=1)[:, None], axis=1)


def statistics(t, signal, impacts=IMPACTS):
    """Return (impacts, 3): largest value, mean frequency of the spectrum [Hz], and 5 to 95 % of the square [s].

    Accelerations of one grain cannot match point by point: its neighbours in another packing are others.
    """
    step = t[1] - t[0]
    found = []
    for part in filtered(t, signal).reshape(impacts, -1):
        power = np.abs(np.fft.rfft(part)) ** 2
        frequency = (np.fft.rfftfreq(part.size, step) * power).sum() / power.sum()
        share = np.cumsum(part**2) / (part**2).sum()
        found.append([np.abs(part).max(), frequency, step * np.ptp(np.searchsorted(share, (0.05, 0.95)))])
    return np.array(found)
