from experiments.store import ResultLine, ResultStore, cell_key


def line(seed=0, version=1, **metrics):
    return ResultLine("table2", version, "quick", {"seed": seed}, metrics or {"mae": 1.0}, 0.5)


def test_lines_round_trip(tmp_path):
    store = ResultStore(tmp_path / "results" / "table2.jsonl")
    lines = [line(seed, mae=0.1 * seed) for seed in range(3)]
    for each in lines:
        store.append(each)
    assert list(store) == lines
    assert list(ResultStore(tmp_path / "absent.jsonl")) == []


def test_the_latest_line_of_a_cell_counts(tmp_path):
    store = ResultStore(tmp_path / "t.jsonl")
    store.append(line(mae=1.0))
    store.append(line(mae=2.0))
    assert [each.metrics["mae"] for each in store.latest().values()] == [2.0]


def test_key_depends_on_configuration_and_version():
    assert line(mae=1.0).key == line(mae=9.0).key
    assert len({line(0).key, line(1).key, line(0, version=2).key}) == 3
    assert cell_key("e", 1, "quick", {"a": 1, "b": 2}) == cell_key("e", 1, "quick", {"b": 2, "a": 1})


def test_invalid_lines_are_skipped(tmp_path):
    store = ResultStore(tmp_path / "x.jsonl")
    store.append(line(0))
    with store.path.open("ab") as file:
        file.write(b"\xff\xfe garbage\n" + b'{"metrics": null}\n' + b"[1, 2]\n")
    store.append(line(1))
    assert len(list(store)) == 2
