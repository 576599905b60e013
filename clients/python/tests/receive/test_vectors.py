"""clients/vectors.json: requests that every client of ours judges in the same way."""

import json
from pathlib import Path
from typing import Any

import pytest
from webhooks_client.receive import VerificationError, verify

PATH = Path(__file__).parents[3] / "vectors.json"

if not PATH.exists():
    pytest.skip("the vectors are in the repository, not in the package", allow_module_level=True)

VECTORS: list[dict[str, Any]] = json.loads(PATH.read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_request_is_judged_as_its_vector_says(vector: dict[str, Any]) -> None:
    if "id" in vector:
        assert judged(vector) == vector["id"]
        return
    with pytest.raises(VerificationError) as caught:
        judged(vector)
    assert caught.value.reason == vector["reason"]
    assert caught.value.explain().startswith(vector["explained"])


def judged(vector: dict[str, Any]) -> str:
    tolerance = vector.get("tolerance", 300)
    return verify(vector["body"].encode(), vector["headers"], vector["secrets"], tolerance, now=vector["now"]).id
