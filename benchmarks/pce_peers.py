"""OpenTURNS on the same functions and the same search; run by its own interpreter, which needs no tamis.

``python benchmarks/pce_peers.py problem n seed`` prints one JSON line for each degree and q-norm: q, degree, terms,
its leave-one-out error, true error, CPU seconds. Basis sets above 10 n terms are left out, as tamis leaves them out.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
import openturns
from scipy.stats import qmc

MOST = 10  # terms a run
NORMS = (0.5, 0.75, 1.0)
DEGREES = range(1, 21)


def functions() -> dict[str, tuple[object, int]]:
    import importlib.util
    import types
    from pathlib import Path

    for name in ("tamis", "tamis.types"):  # the functions only borrow a type from tamis
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["tamis.types"].Array = np.ndarray
    path = Path(__file__).parent.parent / "tests" / "surrogates" / "functions.py"
    spec = importlib.util.spec_from_file_location("functions", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {
        "ishigami": (module.ishigami, 3),
        "borehole": (module.borehole, 8),
        "sobol_g": (module.sobol_g, 8),
    }


def main() -> None:
    problem, n, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    function, d = functions()[problem]
    warnings.simplefilter("ignore")  # n is no power of two
    openturns.Log.Show(openturns.Log.NONE)
    openturns.TBB.Disable()
    u = qmc.Sobol(d, scramble=True, seed=seed).random(n)
    y = function(u)
    law = openturns.JointDistribution([openturns.Uniform(0.0, 1.0)] * d)
    test = np.random.default_rng(123).random((100_000, d))
    truth = function(test)
    for q in NORMS:
        enumerate_ = openturns.HyperbolicAnisotropicEnumerateFunction(d, q)
        family = openturns.OrthogonalProductPolynomialFactory([openturns.LegendreFactory()] * d, enumerate_)
        for degree in DEGREES:
            size = enumerate_.getBasisSizeFromTotalDegree(degree)
            if size > MOST * n:
                break
            start = time.process_time()
            selection = openturns.LeastSquaresMetaModelSelectionFactory(
                openturns.LARS(), openturns.CorrectedLeaveOneOut()
            )
            algorithm = openturns.FunctionalChaosAlgorithm(
                openturns.Sample(u),
                openturns.Sample(y[:, None]),
                law,
                openturns.FixedStrategy(family, size),
                openturns.LeastSquaresStrategy(selection),
            )
            algorithm.run()
            seconds = time.process_time() - start
            result = algorithm.getResult()
            model = result.getMetaModel()
            error = np.mean((np.asarray(model(test))[:, 0] - truth) ** 2) / truth.var()
            claimed = float(min(result.getErrorHistory()))
            found = [q, degree, int(size), len(result.getIndices()), claimed, float(error), seconds]
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
