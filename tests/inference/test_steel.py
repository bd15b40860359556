"""The steel-contact study itself, with few samples, against its exact quadrature; `test_tmcmc` has the ten seeds."""

import pytest

from tests.steel import calibrate, figures


@pytest.mark.slow  # the example is run with as few samples, through the command line
@pytest.mark.statistical
def test_a_quarter_of_the_samples_still_weighs_the_models():
    found = {model: figures(model, calibrate(model, 2048, 5)) for model in ("M1", "M2")}
    for model, figure in found.items():
        assert abs(figure["evidence_error"]) <= 0.1, (
            model
        )  # half of what is asked of four times as many samples
        assert abs(figure["lower_mode"]) <= 0.5, model  # binomial: 7 % a standard deviation for 0.1 of 2048
