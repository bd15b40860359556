"""The dropped ball of 01_ball without a study file: the same objects, put together by hand."""

from pathlib import Path

import numpy as np

import tamis

BALL = Path(__file__).parent.parent / "01_ball"


def calibrate(folder: Path, n: int = 2000, workers: int = 2) -> dict:
    ball = tamis.find("model.py:ball", BALL)
    rng = np.random.default_rng(1)

    # what is unknown, and what was measured
    space = tamis.Space(
        (
            tamis.Parameter("e", tamis.uniform(0.60, 0.95)),
            tamis.Parameter("drag", tamis.uniform(0.0, 0.2), unit="1/m"),
            tamis.Parameter("sigma", tamis.lognormal(median=0.01, cov=1.0), unit="m"),
        )
    )
    sheet = tamis.read_csv(BALL / "data" / "drop-1.0.csv")
    t, z = sheet.numbers("t"), sheet.numbers("z")
    observed = tamis.Observation(tamis.at("z", t, unit="m"), z, tamis.Gaussian("sigma"), coord=t)
    drop = tamis.Experiment("drop-1.0", {"h0": 1.0}, (observed,))

    # a campaign over the prior: what the model can do before it has seen the data; run again, it does nothing
    model = space.subset(("e", "drag"))
    with tamis.RunStore(folder / "runs") as store:
        u = tamis.sobol(128, model.dim, rng)
        runs = tamis.evaluate(ball, tamis.points(model, u, drop), store, executor=workers)
        y, good = tamis.observe(drop, runs, store)

    # polynomials of its principal components stand in for the ball; their error is part of the likelihood
    surrogate = tamis.fit_reduced(u[good], y[good], tamis.fit_pce, energy=0.9999)
    emulated = tamis.Emulated(model, surrogate)
    posterior = tamis.tmcmc(space, tamis.Likelihood(space, ((drop, emulated),)), n=n, rng=rng)

    # a drop from 2 m, which nobody told the posterior about, by the ball itself
    higher = tamis.Experiment("drop-2.0", {"h0": 2.0}, (observed,))
    band = tamis.predict(posterior, tamis.Direct(ball, higher, model.names, {}), higher, n=500, rng=rng)
    return {"prior": y[good], "surrogate": surrogate, "posterior": posterior, "band": band}


if __name__ == "__main__":  # worker processes import this file
    found = calibrate(Path(__file__).parent)
    print(f"Q2 of the surrogate, worst instant: {np.nanmin(found['surrogate'].score.q2):.3f}")
    for name, mean, sd in zip(
        *(found["posterior"].summary().column(c) for c in ("parameter", "mean", "sd")), strict=True
    ):
        print(f"{name:6s} {mean:.4f} ± {sd:.4f}")
    print("log evidence {:.2f} ± {:.2f}".format(*found["posterior"].log_evidence))
    print(
        "height after 1.45 s of a drop from 2 m: {:.3f} ± {:.3f} m".format(
            found["band"].mean[-1], found["band"].sd_total[-1]
        )
    )
