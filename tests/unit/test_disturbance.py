from sojourn.assessment.steps import warnings


def row(busy: float, own: float, wait: float) -> dict[str, float]:
    return {
        "server_core_busy_fraction": busy,
        "server_cpu_fraction": own,
        "generator_core_wait_fraction": wait,
    }


def test_a_quiet_machine_gives_no_warning() -> None:
    assert warnings([row(0.5, 0.45, 0.01), row(0.99, 0.95, 0.02)]) == []


def test_other_work_on_either_core_is_said() -> None:
    assert [text.split(" of the ")[0] for text in warnings([row(0.9, 0.4, 0.3)] * 3)] == [
        "Other processes used 50 %",
        "Other processes held the generator's core 30 %",
    ]


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert warnings([{"server_core_busy_fraction": None, "server_cpu_fraction": None}]) == []
