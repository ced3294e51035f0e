"""Columns of published traces mean what their authors say."""

from __future__ import annotations

import pytest

from charterer.tools.simulator.history.history import History
from charterer.tools.simulator.history.trace import delimiter_of, is_trace, read_history, seconds
from charterer.tools.simulator.model.workload import BadRow
from tests.unit.simulate.histories import POOL


def read(text: str) -> History:
    assert is_trace(text.splitlines()[0])
    return read_history(text.splitlines(), "t.csv", (POOL,), 30.0)


def jobs(text: str) -> list[tuple[str, int, float]]:
    """Name, GPUs and seconds of each job."""
    return [(job.name, job.gpus, job.seconds) for past in read(text).pools for job in past.jobs]


PUBLISHED = {
    "helios": "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "1,u,vc,16,1,2,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 19:41:01,3600,0\n"
    "2,u,vc,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
    "3,u,vc,0,16,1,COMPLETED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0",
    "acme": "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,fail_time,stop_time,"
    "duration,queue,gpu_time\n1,u,2,16,1,Other,COMPLETED,2023-06-09 18:41:01,,,,,3600,0,57600",
    "pai-simulator": "job_id,user,num_gpu,num_cpu,submit_time,num_inst,duration\n1,u1,1,6,0,16,3600",
    "pai-tables": "job_name,inst_num,status,start_time,end_time,plan_gpu,submit_time\n"
    "1,8,Terminated,100,3700,200,90\n2,1,Failed,100,3700,200,90",
    "openb": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    "scheduled_time\n1,1,1,16,1000,,LS,Succeeded,0,3700,100\n2,1,1,8,1000,,LS,Pending,0,,",
    "spot-2026": "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
    "1,o,A100,8,8,2,0,3600,spot",
    "philly-of-pollux": "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,3600.0,16,66.0,11cb48",
    "sacct": "JobID|JobName|Submit|Elapsed|State|AllocTRES|Restarts|Partition|ExitCode\n"
    "1|a|2026-03-28T22:10:00|01:00:00|COMPLETED|billing=64,cpu=64,gres/gpu:a100=16,gres/gpu=16|0|gpu|0:0\n"
    "1.batch|batch|2026-03-28T22:10:00|01:00:00|COMPLETED|cpu=64,gres/gpu=16|0|gpu|0:0\n"
    "2|b|2026-03-28T22:11:00|1-01:00:00|CANCELLED by 1000|gres/gpu=8|0|gpu|0:0\n"
    "3|c|2026-03-28T22:11:00|00:01:00|COMPLETED|cpu=64|0|cpu|0:0",
}


@pytest.mark.parametrize("trace", PUBLISHED)
def test_a_published_trace_has_one_complete_job_of_16_gpus_for_an_hour(trace: str) -> None:
    name = "job-1" if trace == "philly-of-pollux" else "1"
    assert jobs(PUBLISHED[trace]) == [(name, 16, 3600.0)]


def test_what_is_left_out_is_counted_by_why() -> None:
    assert read(PUBLISHED["helios"]).gaps == (
        "Left out: 1 x job that is FAILED: when it would have ended under another policy is not known.",
        "Left out: 1 x job without a GPU.",
    )
    assert read(PUBLISHED["sacct"]).gaps == (
        "Left out: 1 x job that is CANCELLED: when it would have ended under another policy is not known.",
        "Left out: 1 x job without a GPU.",
        "Left out: 1 x step of a job, which is a part of it.",
    )


def test_parts_of_gpus_count_as_whole_ones_and_are_told() -> None:
    text = "submit_time,duration,num_gpu,gpu_milli,num_inst\n0,60,1,500,1\n0,60,0.5,,4\n0,60,1,500,3"
    assert [gpus for _, gpus, _ in jobs(text)] == [1, 2, 2]
    assert read(text).gaps == ("2 jobs with a part of a GPU: it counts as a whole one.",)


def test_a_job_that_began_more_than_once_is_told() -> None:
    text = "Submit;Elapsed;ReqTRES;State;Restarts\n0;60:00;gres/gpu:a100=4,gres/gpu:h100=4;COMPLETED;2"
    assert [(gpus, seconds) for _, gpus, seconds in jobs(text)] == [(8, 3600.0)]
    assert read(text).gaps == ("1 job began more than once: what its earlier tries did is not known.",)


@pytest.mark.parametrize("column", ["task_num", "ps_replicas", "exit_status", "gpu_percent", "preempted"])
def test_a_column_that_may_change_what_a_row_means_is_told(column: str) -> None:
    (gap,) = read(f"submit_time,duration,num_gpu,{column}\n0,60,1,2").gaps
    assert gap.startswith(f"Not read: {column}.")


@pytest.mark.parametrize("column", ["user", "vc", "queue", "memory_mib", "partition", "podium", "nodelist"])
def test_other_columns_are_ignored(column: str) -> None:
    assert read(f"submit_time,duration,num_gpu,{column}\n0,60,1,2").gaps == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("3600", 3600.0),
        ("66.5", 66.5),
        ("06:00:00", 21600.0),
        ("1-02:03:04", 93784.0),
        ("2-12", None),
        ("05:07", 307.0),
        ("1-02:03", 93780.0),
        ("1 day, 2:03:04", 93784.0),
        ("2 days 02:03:04.5", 180184.5),
        ("soon", None),
    ],
)
def test_durations_are_read_as_they_are_written(text: str, found: float | None) -> None:
    if found is None:
        with pytest.raises(ValueError, match=text):
            seconds(text)
    else:
        assert seconds(text) == found


def test_a_job_that_ends_before_it_starts_is_named() -> None:
    with pytest.raises(BadRow, match=r"t.csv line 2: ended '50' is not after '100'"):
        read("submit_time,num_gpu,start_time,end_time\n0,1,100,50")


def test_a_file_of_failed_jobs_says_that_nothing_is_left() -> None:
    with pytest.raises(BadRow, match=r"has no row: add at least one job\. Left out: 1 x job that is FAILED"):
        read("submit_time,num_gpu,duration,state\n0,1,100,failed")


@pytest.mark.parametrize(
    ("header", "delimiter"), [("a,b|c", ","), ("a|b", "|"), ("a;b", ";"), ("a\tb", "\t"), ("a", ",")]
)
def test_the_delimiter_is_the_headers(header: str, delimiter: str) -> None:
    assert delimiter_of(header) == delimiter
