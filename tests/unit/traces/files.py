"""Small made-up files in the readers' formats. None of these times was ever measured."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tests.unit.hazard.records import office_owner

EXAMPLES = {
    "helios demand": """vc,time,total_gpus,running_gpus,pending_gpus,running_gpu_jobs
one,2030-01-07 00:00,8,2,0,1
one,2030-01-07 09:00,8,4,0,2
one,2030-01-07 18:00,8,0,0,0
one,2030-01-08 09:00,8,4,0,2
""",
    "active nodes": """time,active_nodes,total_nodes
2030-01-07 00:00:00,3,9
2030-01-07 10:00:00,5,9
2030-01-07 20:00:00,4,9
""",
    "skypilot changes": """trace,t_s,nodes_available
zone-a,0,2
zone-a,3600,1
zone-a,7200,2
zone-b,0,0
zone-b,600,1
zone-b,1200,0
""",
    "bamboo counts": """timestamp,count
2030-01-07T10:00:00Z,4
2030-01-07T11:00:00Z,3
2030-01-07T12:00:00Z,0
""",
    "bamboo instances": """time,instances
2030-01-07 10:00:00,4
2030-01-07 10:02:00,3
2030-01-07 10:01:00,4
2030-01-07 11:00:00,2
""",
    "bamboo nodes": """t_ms,event,node
0,add,n1
0,add,n2
60000,remove,n1
120000,add,n3
""",
    "google lifetimes": """vm,zone,machine_type,start_time,end_day_of_week,end_hour,idle,lifetime_s,end
0,zone-a,small,2030-01-07T08:00:00.000-08:00,Monday,9,idle,3600.0,preempted
1,zone-a,small,2030-01-07T09:00:00.000-08:00,Monday,19,idle,36000.0,stopped_by_user
2,zone-b,large,2030-01-07T09:00:00.000-08:00,Monday,9,idle,600.5,preempted
""",
    "log-ins": """time,location
2030-01-07 09:00:00,room-1
2030-01-07 09:30:00,room-2
2030-01-07 10:00:00,room-1
2030-01-07 11:30:00,room-2
""",
    "lanl failures": """node,down_from_epoch,up_at_epoch
3.001,1000,2000
3.001,9000,9500
3.002,1500,1600
""",
    "philly jobs": """submit_time,duration_s,num_gpus,cluster
2030-01-07 09:00:00,7200,4,lab
2030-01-07 15:00:00,600,8,lab
2030-01-07 18:00:00,600,2,lab
""",
    "alibaba openb pods": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    """creation_time,deletion_time,scheduled_time
p0,4000,1024,1,500,V100M16|V100M32,LS,Running,0,9000,10
p1,4000,1024,2,1000,,LS,Running,20000,30000,20010
p2,4000,1024,1,250,,BE,Pending,25000,26000,
p3,2000,2048,0,0,,BE,Running,100,200,150
""",
}


def example(folder: Path, name: str) -> Path:
    """Under a name that gives nothing away."""
    path = folder / "a.csv"
    path.write_text(EXAMPLES[name], encoding="utf-8")
    return path


def an_office_campus(folder: Path, labs: int = 4, days: int = 21) -> Path:
    """Demand of labs that come to work at nine, as a file: each visit takes one GPU for ten minutes."""
    lines = ["vc,time,total_gpus,running_gpus,pending_gpus,running_gpu_jobs"]
    for lab in range(labs):
        spans = office_owner(lab, days)
        visits_s = [span.to_s for span in spans if span.departed]
        changes = [(at_s, 1) for at_s in visits_s] + [(at_s + 600.0, -1) for at_s in visits_s]
        running = 0
        for at_s, change in [(spans[0].from_s, 0), *sorted(changes)]:
            running += change
            moment = datetime.fromtimestamp(at_s, UTC).replace(tzinfo=None)
            lines.append(f"lab{lab},{moment.isoformat(' ')},40,{running},0,{running}")
    path = folder / "campus.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
