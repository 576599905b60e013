"""subscriptions/ids.py: UUIDs shown as TypeIDs, checked against the specification's own vectors."""

import pickle
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriptions import ids

# https://github.com/jetify-com/typeid/blob/main/spec/valid.yml
VECTORS = [
    ("nil", "00000000000000000000000000", "00000000-0000-0000-0000-000000000000"),
    ("one", "00000000000000000000000001", "00000000-0000-0000-0000-000000000001"),
    ("ten", "0000000000000000000000000a", "00000000-0000-0000-0000-00000000000a"),
    ("sixteen", "0000000000000000000000000g", "00000000-0000-0000-0000-000000000010"),
    ("thirty-two", "00000000000000000000000010", "00000000-0000-0000-0000-000000000020"),
    ("max-valid", "7zzzzzzzzzzzzzzzzzzzzzzzzz", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    ("valid-alphabet", "0123456789abcdefghjkmnpqrs", "0110c853-1d09-52d8-d73e-1194e95b5f19"),
    ("valid-uuidv7", "01h455vb4pex5vsknk084sn02q", "01890a5d-ac96-774b-bcce-b302099a8057"),
]


@pytest.mark.parametrize(("name", "suffix", "uuid"), VECTORS, ids=[vector[0] for vector in VECTORS])
def test_the_specifications_vectors_are_shown_and_read_as_published(name: str, suffix: str, uuid: str) -> None:
    assert ids.show("prefix", UUID(uuid)) == f"prefix_{suffix}"
    assert ids.parse("prefix", f"prefix_{suffix}") == UUID(uuid)


@settings(deadline=None)
@given(st.uuids())
def test_what_is_shown_is_read_back(uuid: UUID) -> None:
    assert ids.parse("evt", ids.show("evt", uuid)) == uuid


@settings(deadline=None)
@given(st.uuids(), st.uuids())
def test_ids_sort_as_their_uuids_do(one: UUID, other: UUID) -> None:
    assert (ids.show("evt", one) < ids.show("evt", other)) == (one < other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "_",
        "evt",
        "evt_",
        "01h455vb4pex5vsknk084sn02q",
        "_01h455vb4pex5vsknk084sn02q",
        "ep_01h455vb4pex5vsknk084sn02q",
        "EVT_01h455vb4pex5vsknk084sn02q",
        "evt_01h455vb4pex5vsknk084sn02",
        "evt_01h455vb4pex5vsknk084sn02qq",
        "evt_01H455VB4PEX5VSKNK084SN02Q",
        "evt_81h455vb4pex5vsknk084sn02q",
        "evt_01h455vb4pex5vsknk084sn02u",
        "evt_01h455vb4pex5vsknk084sn0-q",
        "evt_01h455vb4pex5vsknk084sn02é",
        "evt_٠1h455vb4pex5vsknk084sn02q",
        "evt__01h455vb4pex5vsknk084sn02q",
        " evt_01h455vb4pex5vsknk084sn02q",
        "evt_01h455vb4pex5vsknk084sn02q\n",
        "evt_01890a5d-ac96-774b-bcce-b302099a8057",
    ],
)
def test_what_is_no_id_of_its_kind_is_none(text: str) -> None:
    assert ids.parse("evt", text) is None


@settings(deadline=None)
@given(st.text())
def test_no_text_is_read_as_an_id_that_would_be_shown_otherwise(text: str) -> None:
    uuid = ids.parse("evt", text)

    assert uuid is None or ids.show("evt", uuid) == text


def test_new_ids_are_version_7_and_grow_with_time() -> None:
    made = [ids.new_uuid() for _ in range(1000)]

    assert {uuid.version for uuid in made} == {7}
    assert sorted(made) == made
    assert len(set(made)) == 1000


def test_an_id_carries_the_millisecond_it_was_made_in() -> None:
    before = datetime.now(UTC)
    uuid = ids.new_uuid()
    after = datetime.now(UTC)

    assert ids.first_at(before) <= uuid < ids.first_at(after + timedelta(milliseconds=1))


def test_a_range_of_times_is_a_range_of_ids() -> None:
    assert ids.first_at(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == UUID("00000000-03e8-0000-0000-000000000000")


def test_a_new_id_is_like_any_other_uuid() -> None:
    made = ids.new_uuid()
    same = UUID(str(made))

    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert (made, hash(made), repr(made), made.is_safe) == (same, hash(same), repr(same), same.is_safe)
    assert pickle.loads(pickle.dumps(made)) == made
    assert UUID(ids.new_text()).version == 7
