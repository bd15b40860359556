"""Kriging of other packages on the functions of ``kriging.py``; run by their own interpreter, which needs no tamis.

``python benchmarks/kriging_peers.py package file`` reads runs and test points of one problem from an ``.npz`` and
prints one JSON line: CPU seconds of the fit and of the prediction; mean and noise-free variance go beside the file.
Default settings, except the covariance function, one length per input, and noise where the runs have some.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np


def with_sklearn(case, restarts=0):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    u, y = case["u_0"], case["y_0"]
    kernel = ConstantKernel() * Matern(np.ones(u.shape[1]), nu=2.5) + WhiteKernel()
    start = time.process_time()
    model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=restarts, random_state=0)
    model.fit(u, y)
    fitted = time.process_time()
    mean, sd = model.predict(case["v"], return_std=True)
    done = time.process_time()
    noise = model.kernel_.k2.noise_level * y.var()
    return mean, np.maximum(sd**2 - noise, 0.0), fitted - start, done - fitted


def with_smt(case):
    from smt.applications.mfk import MFK

    d = case["v"].shape[1]
    corr = {"squared_exponential": "squar_exp"}.get(str(case["kernel"]), str(case["kernel"]))
    model = MFK(theta0=[1e-2] * d, theta_bounds=[1e-6, 100.0], corr=corr, print_global=False)
    start = time.process_time()
    model.set_training_values(case["u_0"], case["y_0"][:, None], name=0)
    model.set_training_values(case["u_1"], case["y_1"][:, None])
    model.train()
    fitted = time.process_time()
    mean, var = model.predict_values(case["v"])[:, 0], model.predict_variances(case["v"])[:, 0]
    return mean, var, fitted - start, time.process_time() - fitted


PACKAGES = {
    "scikit-learn": with_sklearn,
    "scikit-learn, 3 restarts": lambda case: with_sklearn(case, 3),
    "smt": with_smt,
}


def main() -> None:
    package, path = sys.argv[1], Path(sys.argv[2])
    warnings.simplefilter("ignore")
    with np.load(path) as case:
        mean, var, fit, predict = PACKAGES[package](dict(case))
    np.savez(path.with_suffix(".answer.npz"), mean=mean, var=var)
    print(json.dumps([fit, predict]))


if __name__ == "__main__":
    main()
