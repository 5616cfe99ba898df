"""What each reason says to people: a template over the facts that the reason carries.

One that asks for a fact the reason does not carry is a bug that the tests find. What agrees with a number is
written for one and for many, as in `{has} GPU(s)` and `{needs} (is/are) needed`: `text` chooses.
"""

from __future__ import annotations

from gpunion.domain.reasons.why import Why

SENTENCES: dict[Why, str] = {
    Why.NODE_PAUSED: "its owner takes no new guests at the moment",
    Why.NODE_RECLAIMED: "its owner is using it",
    Why.NODE_SILENT: "it has not been heard from",
    Why.NODE_UNHEARD: "the coordinator has begun again and has not heard from it since",
    Why.NODE_LEFT: "it has left the campus",
    Why.TOO_FEW_GPUS: "it has {has} GPU(s), {needs} (is/are) needed",
    Why.TOO_FEW_FREE_GPUS: "{free} of its GPUs (is/are) free, {needs} (is/are) needed",
    Why.TOO_LITTLE_VRAM: "{has} of its GPUs (has/have) {vram_bytes} of memory (the largest has "
    "{most_bytes}), {needs} (is/are) needed",
    Why.WRONG_MODEL: "its GPUs ({models}) are not of a wanted model",
    Why.OTHER_CAPABILITY: "its GPUs ({models}) have compute capability {has}, and the job asks for {asked}",
    Why.CAPABILITY_UNKNOWN: "it does not know the compute capability of its GPUs, and the job asks for "
    "{asked}. Its owner can {mend}",
    Why.OTHER_CUDA: "its driver supports CUDA up to {has}, and the job asks for {asked}",
    Why.IMAGE_NEEDS_CUDA: "its driver supports CUDA up to {has}, and the image {image} asks for {asked}",
    Why.CUDA_UNKNOWN: "it does not know which CUDA its driver supports, and the job asks for {asked}. "
    "Its owner can {mend}",
    Why.TOO_FEW_CPUS: "it lends {has} CPU(s), {needs} (is/are) needed",
    Why.TOO_LITTLE_MEMORY: "it lends {has_bytes} of memory, {needs_bytes} are needed",
    Why.TOO_FEW_FREE_CPUS: "{free} of its CPUs (is/are) free, {needs} (is/are) needed",
    Why.TOO_LITTLE_FREE_MEMORY: "{free_bytes} of its memory are free, {needs_bytes} are needed",
    Why.LAB_NOT_ADMITTED: "its owner does not admit guests of {lab}",
    Why.PERSON_NOT_ADMITTED: "its owner does not admit {person}",
    Why.NOT_LENT_NOW: "{because}",
    Why.ENDS_SOON: "by its owner's terms it is lent for {left_s} more only",
    Why.UNSANDBOXED: "it cannot shut guests in and its owner has not allowed that",
    Why.NO_SESSIONS_HERE: "its owner lets nobody work in guests by hand",
    Why.NO_NETWORK_HERE: "its owner allows guests no network, and the job asks for one",
    Why.PLACE_NOT_REACHED: "it does not reach {place}, where the job's checkpoints lie, or finds it full",
    Why.GUESTS_FULL: "it already has the {limit} guest(s) its owner allows",
    Why.REFUSED_LATELY: "it refused or failed this job a moment ago, and is asked again in {left_s}",
    Why.NOT_WANTED_THERE: "the owner of this job wants no window there",
    Why.GPU_WITHHELD: "not all of its GPUs are lent, {free} (is/are) free and {needs} needed: {because}",
    Why.DUMPING_UNTRIED: "it is being found out whether it can dump and bring back whole guests",
    Why.SLICES_APART: "of its GPUs {slices} are slices of cards, which do not talk to each other, and "
    "{needs} GPUs are needed together",
    Why.SLICE_NOT_DUMPED: "its GPUs are slices of cards, and a whole guest on one can be neither dumped nor "
    "brought back",
    Why.ON_A_SLICE: "on {node} it has a slice of a card ({profile}): where its owner wants that, it is "
    "neither parked in memory nor dumped, and goes on from what it has saved",
    Why.CANNOT_DUMP: "it cannot dump and bring back whole guests: {why_not}",
    Why.OTHER_ARCHITECTURE: "it is {here}, and the job was dumped whole on {there}",
    Why.OTHER_GPU: "its GPUs are {here}, and what the job has on a {there} moves only to another of these",
    Why.RESTORE_FAILED_BEFORE: "a whole guest of such a machine did not come to life there ({differing})",
    Why.NO_IMAGES_HERE: "its guests run in no containers ({runtime}), and the job asks for an image",
    Why.IMAGE_NOT_LISTED: "the campus does not list the image {image}",
    Why.IMAGE_NOT_ADMITTED: "its owner does not admit the image {image}",
    Why.IMAGE_TOO_LARGE: "its owner gives images {quota_bytes}, {image} takes {needs_bytes}",
    Why.ENVIRONMENT_NOT_PUBLISHED: "the campus publishes no environment {environment}; ask whoever runs it",
    Why.IMAGE_PINNED: "its image is {image}",
    Why.IMAGE_ADDED: "{by} put {image} on the campus's list",
    Why.IMAGE_REMOVED: "{by} took {image} off the campus's list",
    Why.ENVIRONMENT_ADDED: "{by} published the environment {environment}",
    Why.ENVIRONMENT_REMOVED: "{by} removed the environment {environment}: nobody is started with it any more",
    Why.QUOTA_REACHED: "waits: {who} holds {held} of the {limit} GPU(s) allowed at once; this needs {needs}",
    Why.QUOTA_TOO_SMALL: "cannot begin: {who} may hold {limit} GPU(s) at once, and this needs {needs}. "
    "Next: stop it and ask for less, or have whoever runs the campus allow more "
    "(gpunion quotas set {account} {needs})",
    Why.HIGH_QUOTA_REACHED: "waits: {who} holds {held} of the {limit} GPU(s) allowed at once for jobs of "
    "class high; this needs {needs}",
    Why.HIGH_QUOTA_TOO_SMALL: "cannot begin: {who} may hold {limit} GPU(s) at once for jobs of class high, "
    "and this needs {needs}. Next: stop it and hand it in without --priority high, or have whoever runs the "
    "campus allow more (gpunion quotas set {account} {needs} --class high)",
    Why.QUOTA_SET: "{who} may hold {gpus} GPU(s) at once, says {by}",
    Why.HIGH_QUOTA_SET: "{who} may hold {gpus} GPU(s) at once for jobs of class high, says {by}",
    Why.FIRST_IN_LINE: "no waiting job goes before it: it gets the next room that fits",
    Why.IN_LINE: "where there is room, {ahead} waiting job(s) (goes/go) first: {because}",
    Why.TURN: "where there is room, {ahead} waiting job(s) (goes/go) first: {because}; {who} has had "
    "{share} % of what was used lately ({used_h} GPU-hours) and has lent {lent_h}",
    Why.BEHIND_DEADLINE: "it is {behind_s} of work behind the line to its deadline: it goes before others "
    "of its class, and to machines that stay",
    Why.ROOM_MADE: "room is made for it on {node} by {jobs}, of class {classes}: its place is expected in "
    "about {free_in_s}",
    Why.MADE_ROOM: "made room on {node} for {job}, which is of class {urgent}; "
    "it {how}, with {unsaved_s} of its work not saved so far, and goes on when there is a place",
    Why.PARKED_FOR: "{gib} GiB of its GPU memory went into the memory of {node} in {took_s}; its GPU is free "
    "for {job}, and it goes on there after that, or elsewhere, with nothing lost",
    Why.CANNOT_BE_PARKED: "it could not be parked in the memory of {node} for a job of a higher class "
    "({because}): it would be saved first, or stay",
    Why.NOT_PARKED_FOR: "it could not be parked on {node} ({detail}); {how}",
    Why.PARKED_IS_DUMPED: "it is dumped as it stands in the memory of {node}, and moved{where}",
    Why.CLAIMS_PLACE: "after {waited_s} in the memory of {node} it has its turn: whoever is on its GPU "
    "makes room",
    Why.STANDS_STILL: "it has stood still in the memory of {node} for {for_s}, with nothing lost: {job}, of "
    "class {urgent}, has its GPU and does not say how long it runs; it goes on after that, or elsewhere, and "
    "has its turn in {turn_s} at the latest",
    Why.STANDS_STILL_UNTIL: "it has stood still in the memory of {node} for {for_s}, with nothing lost: "
    "{job}, of class {urgent}, has its GPU and says that it is done in about {left_s}; it goes on after "
    "that, or elsewhere, and has its turn in {turn_s} at the latest",
    Why.STANDS_STILL_BEFORE: "it has stood still in the memory of {node} for {for_s}, with nothing lost; "
    "{job}, for which it made room, is over, and another has its GPU: it has its turn in {turn_s} at the "
    "latest",
    Why.GETS_BACK: "it gets back onto its GPU on {node} just now",
    Why.LEFT_UNSAVED: "it could not be saved on {node} and leaves all the same, as it was handed in with "
    "--preemptible; step {durable} is the last one durable",
    Why.ROOM_COMES: "its place on {node} is expected in about {free_in_s}: {jobs}, of class {classes}, {how}",
    Why.ROOM_GIVEN: "it made room on {node} for {job}, of class {urgent}, which does not say how long it "
    "runs; it goes on there after that, or as soon as there is another place",
    Why.ROOM_GIVEN_UNTIL: "it made room on {node} for {job}, of class {urgent}, which says that it is done "
    "in about {left_s}; it goes on there after that, or as soon as there is another place",
    Why.ROOM_GIVEN_BEFORE: "it made room on {node} for {job}, which is over: it takes its turn",
    Why.NOBODY_MAKES_ROOM: "nobody makes room for it now; of the jobs that have a place: {because}",
    Why.DEADLINE_MISSED: "its deadline cannot be met any more; it takes its turn like others",
    Why.SUBMITTED: "accepted from {owner}",
    Why.IMPOSSIBLE: "no node of this campus could ever run it: {blockers}",
    Why.PLACED: "placed on {node} (run {epoch} of it): {because}",
    Why.WAITING: "waiting: {blockers}",
    Why.STARTED: "started on {node} from the beginning",
    Why.RESUMED: "resumed on {node} at step {step}",
    Why.SAVED: "step {step} is durable ({bytes} shipped)",
    Why.PLACES_PASSED_OVER: "for now it goes on without some of its places, which get what they miss "
    "when they have room ({trouble})",
    Why.SAVES_AHEAD: "asked to save ahead: {node} is lent for {left_s} more, and what its guests have not "
    "saved would not all fit the notice of {notice_s}",
    Why.SAVED_ELSEWHERE: "it was saved in another of its places, since {trouble}",
    Why.SAVE_SPOILED: "its program could not go on from what it had saved at step {step} ({detail}); "
    "it goes on from the save before, step {durable}",
    Why.SAVE_UNREADABLE: "newer saves of it could not be read, so it goes on from step {step} ({trouble})",
    Why.SAVE_FAILED: "its save {checkpoint} did not become durable: {trouble}",
    Why.STALE_EPOCH: "late news of run {epoch} of it changed nothing: by then it was at run {current}",
    Why.EPOCH_USED: "there was a run of this number already",
    Why.SAVED_WHOLE: "the whole guest is durable as step {step} ({bytes} shipped)",
    Why.TIER_FELL_BACK: "it could not be dumped whole ({trouble}); its program saved itself instead",
    Why.RESUMED_WHOLE: "brought back whole on {node} at step {step}",
    Why.DUMP_REFUSED_THERE: "its dump did not come to life on {node}: {detail}",
    Why.DUMP_SPOILED: "its dump of step {step} came to life nowhere; "
    "the save before is tried, of step {durable}",
    Why.DUMP_GIVEN_UP: "its dump came to life nowhere; going on from what its program saved, or anew",
    Why.STEP_BEHIND: "a checkpoint of step {step} was ignored; step {durable} is already durable",
    Why.OWNER_WANTS_NODE: "the owner of {node} wants it back in {notice_s}",
    Why.OWNER_TOOK_NODE: "the owner of {node} took it back {ago_s} ago, while it was out of touch",
    Why.OWNER_WANTS_GPU: "the owner of {node} wants GPU {gpus} back in {notice_s}",
    Why.TERMS_CHANGED: "the owner of {node} changed the terms: {said}",
    Why.TERMS_END_LENDING: "the terms of {node} end its lending in {notice_s}: {detail}",
    Why.TERMS_END_STAY: "the terms of {node} let it stay for {notice_s} more: {detail}",
    Why.MAY_STAY: "it may stay on {node} after all",
    Why.OWNER_COMPUTES: "the owner of {node} began to compute on GPU {gpus} ({detail}); "
    "it is theirs in {notice_s}",
    Why.GPU_SICK: "GPU {gpus} of {node} is out of order ({detail})",
    Why.PARKED: "{gib} GiB of its GPU memory went into the memory of {node} in {took_s}; "
    "it stands still there until the owner is done",
    Why.NOT_PARKED: "it could not be parked on {node} ({detail}); it is saved and moved instead",
    Why.UNPARKED: "goes on on {node} after {parked_s} in its memory; nothing was lost",
    Why.PARKED_TOO_LONG: "the owner of {node} was not done after {patience_s}; "
    "it goes on elsewhere, from its last save",
    Why.PARKED_MOVES: "it gives up its place on {node}: it is taken as it stands there, within {limit_s}",
    Why.PARKED_GOES_ON: "after {waited_s} in the memory of {node} it was taken as it stood there; "
    "it goes on elsewhere from exactly that point",
    Why.NOT_UNPARKED: "it did not get back onto its GPU on {node}: {detail}",
    Why.FLUSH_FITS: "saving takes about {needs_s} and fits the {left_s} left",
    Why.CAPTURE_FITS: "saving takes about {stall_s} and fits the {left_s} left on the GPU; "
    "what was saved is sent afterwards",
    Why.NOTICE_TOO_SHORT: "saving takes about {needs_s} and does not fit the {left_s} left; "
    "going on from step {durable} later",
    Why.WORKS_ON_TO_THE_END: "no other machine has room for it now: it works on there for up to {works_s}, "
    "is saved before its time is up, and goes on as soon as there is a place",
    Why.LEAVES_IN_TURN: "the guests of {node} leave one after another: it works on there for up to "
    "{works_s}, is saved then, and goes on elsewhere",
    Why.STAGED: "a copy of its state goes to {node}, where it would go next ({bytes}; {because})",
    Why.STATE_READY: "its state lies ready on {node} ({fetched} bytes fetched, {direct} of them directly)",
    Why.STATE_CAME_DIRECTLY: "{direct} bytes of its state came to {node} straight from where it ran",
    Why.NO_DIRECT_WAY: "{node} could not fetch its state straight from where it ran ({trouble}); "
    "the vault gave it",
    Why.STATE_WAS_THERE: "{found} bytes of its state lay ready on {node}",
    Why.MOVED_ANEW: "moved from {source} to {node}; stood still for {downtime_s} and begins anew: "
    "nothing of it was saved (how a program is saved: docs/checkpoints.md)",
    Why.MOVED: "moved from {source} to {node}; stood still for {downtime_s}, {redone} step(s) to redo",
    Why.MOVED_UNCOUNTED: "moved from {source} to {node}; stood still for {downtime_s}, {again}",
    Why.RUNS_AGAIN_UNCOUNTED: "runs again on {node}, where it was; stood still for {downtime_s}, {again}",
    Why.RUNS_AGAIN_ANEW: "runs again on {node}, where it was; stood still for {downtime_s} and begins anew: "
    "nothing of it was saved (how a program is saved: docs/checkpoints.md)",
    Why.RUNS_AGAIN: "runs again on {node}, where it was; stood still for {downtime_s}, "
    "{redone} step(s) to redo",
    Why.FELL_BACK: "its last save did not arrive ({trouble}); going on from step {durable}",
    Why.OWNER_KILLED: "the owner of {node} took it back without notice",
    Why.OWNER_LEFT: "{node} is leaving the campus",
    Why.LEASE_LOST: "{node} lost touch with the coordinator and ended its guests",
    Why.DISK_SHORT_THERE: "its disk has no room for another guest; its owner is told",
    Why.DISK_SHORT: "the disk of {node} has little room left: what the job writes there, and its next saves, "
    "may fail soon; {safe}. Next: have it write less, or stop it and submit it again",
    Why.DISK_FULL: "the disk of {node} is full: what the job writes there fails, and it cannot be saved "
    "before its owner makes room; {safe}. Next: wait, or stop it and submit it again",
    Why.DISK_HAS_ROOM: "the disk of {node} has room again",
    Why.DISK_FAILS_THERE: "its disk fails; its owner is told",
    Why.DISK_FAILS: "the disk of {node} fails: what the job writes there may fail as well, and it may not be "
    "saved; {safe}. Next: wait, or stop it and submit it again",
    Why.DISK_WORKS: "the disk of {node} works again",
    Why.NODE_WENT_SILENT: "nothing is heard of {node}; unless that changes, "
    "what runs there goes on elsewhere in {fence_s}",
    Why.NODE_GIVEN_UP: "{node} stayed silent; going on from step {durable}",
    Why.FORGOTTEN_THERE: "{node} has begun anew and knows nothing of it (its agent lost its memory, or the "
    "coordinator was put back from a backup); it goes on when what may be left of it there has certainly "
    "ended, in {fence_s}",
    Why.NODE_BEGAN_ANEW: "{node} had begun anew without it; it goes on from step {durable}, or from what it "
    "saved after that",
    Why.NODE_HEARD_AGAIN: "{node} is heard again",
    Why.NODE_JOINED: "{node} of lab {lab} joined with {gpus} GPU(s)",
    Why.NODE_BACK: "{node} is lent again",
    Why.NODE_REMOVED: "{by} took it off the campus's list of machines",
    Why.NODE_STAYS: "it stays on the campus's list of machines: {because}",
    Why.GPU_PAUSED: "the owner of {node} takes no new guests on GPU {gpus}",
    Why.GPU_FREE: "GPU {gpus} was free {freed_after_s} after it was wanted",
    Why.GPU_BACK: "GPU {gpus} of {node} is lent again",
    Why.GOING_HOME: "going home to {node}: saves about {gain_s}",
    Why.RUN_REFUSED: "{node} refused it: {refusal}",
    Why.START_FAILED: "could not start on {node}: {detail}",
    Why.STOP_ASKED: "its user asked to stop it",
    Why.ENDED_ITSELF: "it saved itself and ended without being asked from here; it is run again",
    Why.SAVED_OUT_OF_TOUCH: "{node} and the coordinator were out of touch for too long: "
    "it was saved there and ended, {ago_s} ago; it is run again",
    Why.SAVED_FOR_OWNER: "the owner of {node} wanted it back: it was saved there and ended, {ago_s} ago; "
    "it is run again",
    Why.GUEST_VANISHED: "it died on {node} without a word from itself or its owner",
    Why.SESSION_EXISTS: "a session called {name} lives already: {job}",
    Why.SESSION_IDLE: "nobody has worked in it for {idle_s}: it ends in {left_s} unless somebody does",
    Why.SESSION_IDLE_END: "nobody has worked in it for {idle_s}: it is asked to keep what it has and to end",
    Why.SESSION_END_ASKED: "asked to keep what it has and to end, by {by}",
    Why.SESSION_DOES_NOT_END: "it was asked to end {for_s} ago and has not: it is stopped",
    Why.OUTPUT_ARRIVED: "what it made was kept on {node} and has come from there; "
    "fetch it: gpunion cp {job}: DIR",
    Why.OUTPUT_ON_ITS_WAY: "its program has ended on {node}; what it made is not yet where it is kept, "
    "and is sent until it is",
    Why.OUTPUT_NOT_TAKEN: "its program has ended on {node}, but what it made could not be sent so far: "
    "{trouble}. It is tried again for an hour (what comes then: docs/jobs.md). Next: {next}",
    Why.OUTPUT_NOT_KEPT: "its program finished on {node}, but {detail}; it is run again from step {durable}",
    Why.OUTPUT_LEFT_OUT: "{detail}",
    Why.FINISHED: "finished on {node} after {moves} move(s)",
    Why.FAILED: "failed: {detail}",
    Why.CANCELLED: "cancelled by its user",
    Why.ALREADY_OVER: "the job is already over ({phase})",
    Why.UNKNOWN_JOB: "there is no such job",
    Why.UNKNOWN_NODE: "there is no such node",
    Why.REPORT_REFUSED: "a report of {node} ({report}) changed nothing: {because}",
    Why.NODE_ISOLATED: "it is isolated, since {because}; gpunion nodes accept {node} lets guests come again",
    Why.ISOLATED_THERE: "{node} was isolated, since {because}; if it does not end there before, "
    "it is given up in {fence_s} and goes on elsewhere",
    Why.NODE_ACCEPTED: "{by} accepted it again",
    Why.SET_ASIDE: "{what} could not be handled and was set aside ({because})",
    Why.PLANNING_FAILED: "finding places for jobs failed ({because}); it is tried again in {again_s}",
    Why.GANG_SEAT: "member {rank} of a gang of {size}: all run together, or none does",
    Why.GANG_WAITS: "{found} of its gang's {size} members would have a place now, and all start together "
    "or none: {blockers}",
    Why.GANG_IMPOSSIBLE: "no machines of this campus could ever run all {size} members at once; "
    "there is room for {found}",
    Why.GANG_ROOM: "it has room for {room} of the {size} members, with nobody else on it",
    Why.GANG_SAVES: "member {rank} has to leave {node}: {because}; "
    "all {size} members are saved at the same step and go on together",
    Why.GANG_APART: "its gang's members saved different steps ({steps}), which counts for nobody; "
    "all would go on from step {durable}",
    Why.GANG_STOPS: "member {rank} is gone from {node}: {because}; "
    "all {size} members stop and go on together from step {durable}",
    Why.GANG_BROKEN: "its program ended with exit code {code} when another member was gone: "
    "no failure of its own",
    Why.GANG_ENDED: "its program has ended ({how}); the job is over when all {size} members have ended",
    Why.GANG_AGAIN: "its program had ended, but member {rank} is gone from {node}: {because}; "
    "all {size} members run again from step {durable}",
    Why.GANG_FAILS: "member {rank} failed ({detail}), so all {size} members are stopped",
    Why.GANG_GOES_BACK: "member {rank} could not go on from what all had saved at step {step} ({detail}); "
    "all {size} members go on from the save before, step {durable}",
    Why.GANG_SAVE_UNREADABLE: "what member {rank} had saved at step {step} could not be read ({detail}); "
    "all {size} members go on from the save before, step {durable}",
    Why.JOB_HELD: "held: it gets no new run, since not all that the coordinator kept of it can be read "
    "({detail}). Restore the database from a backup, or give the job up with gpunion stop; its checkpoints "
    "in the vault are untouched",
    Why.HELD_RUN_ENDED: "its run on {node} has ended ({how}); it is held, so no other one begins",
    Why.HELD_GIVEN_UP: "given up: it was held, and will not run again; what it saved is still in the vault",
    Why.OLD_EPOCH: "run {epoch} of it is older than run {current}, which is known there",
    Why.OWNER_SAID_NO: "the owner said {phase}",
    Why.BEYOND_TERMS: "there is no room for it by the terms: {detail}",
    Why.BEYOND_MACHINE: "the machine does not have what it was to get there: {detail}",
    Why.WINDOW_GIVEN: "its window on {node} ends in {ends_in_s}: {because}",
    Why.WINDOW_ENDS: "its window on {node} ends now: {because}",
    Why.WINDOW_OVER: "its window on {node} is over: saved at step {step}, waits for the next one",
    Why.WINDOWS_OVER: "{windows} more windows on {machines}, up to step {step}",
    Why.WINDOW_MISSED: "its window on {node} ended before it was saved: {lost_s} of its work is done "
    "again, from step {durable}, and its next piece is cut shorter",
    Why.WINDOW_SAVE_LOST: "what it saved when its window was over did not arrive ({trouble}): it goes on "
    "from step {durable}",
    Why.TURN_KEPT: "its turn on {node} was over, and nobody who waits had more use of its place: it goes on",
    Why.PLACE_PROMISED: "{gpus} on {node} is kept for it, free in {within_s} at the latest",
    Why.PROMISE_DROPPED: "the place that it was promised on {node} is not to be had any more",
    Why.PROMISED_THERE: "its GPUs are promised to others that wait",
    Why.SHORT_OF_MEMORY: "it ran out of memory on {node}, on a GPU smaller than it asked for: no failure of "
    "its own; it goes on from step {durable} on a larger one",
    Why.FAILED_ON_LESS: "it failed on {node} and did not say why, on a GPU smaller than it asked for: that "
    "counts as no failure of its own; it goes on from step {durable} on a larger one",
    Why.BIDS_CHANGED: "its owner changed what it bids for: {bids}",
    Why.BIDS_NOTHING: "its owner lets it bid for nothing now; gpunion bids JOB --again lets it",
    Why.WINDOW_PAST: "the window it was to have there is over",
    Why.NO_LEASE: "it is out of touch with the coordinator",
    Why.GPU_BUSY: "a granted GPU is still in use",
    Why.OWN_SAVE: "nobody could be asked in time, so the agent has {run} saved by itself",
    Why.ADOPTED: "{run} was still alive after the agent's restart",
    Why.STRANGER_ENDED: "{run} was alive but not known; ended",
    Why.NO_ROOM_FOR_IMAGE: "there was no room for its image: {detail}",
    Why.NO_ROOM_FOR_PACKAGES: "there was no room for its packages: {detail}",
    Why.MACHINE_FREE: "the machine was free {freed_after_s} after the owner asked",
}

# What is said instead where the notice is none at all: "in 0 s" is nothing that people say.
WITHOUT_NOTICE: dict[Why, str] = {
    Why.OWNER_WANTS_NODE: "the owner of {node} wants it back at once",
    Why.OWNER_WANTS_GPU: "the owner of {node} wants GPU {gpus} back at once",
    Why.OWNER_COMPUTES: "the owner of {node} began to compute on GPU {gpus} ({detail}); it is theirs at once",
    Why.TERMS_END_LENDING: "the terms of {node} end its lending at once: {detail}",
    Why.TERMS_END_STAY: "the terms of {node} do not let it stay any longer: {detail}",
}

# What is said instead where more is known, by the fact that tells so.
MORE_IS_KNOWN: dict[tuple[Why, str], str] = {
    (
        Why.MOVED,
        "heard_step",
    ): "moved from {source} to {node}; stood still for {downtime_s}, at least {redone} "
    "step(s) to redo: how far it got after step {heard_step} was not heard",
    (Why.RUNS_AGAIN, "heard_step"): "runs again on {node}, where it was; stood still for {downtime_s}, "
    "at least {redone} step(s) to redo: how far it got after step {heard_step} was not heard",
    (
        Why.STALE_EPOCH,
        "redone",
    ): "late news of run {epoch} of it: it had got to step {reached} before it ended, "
    "so that {redone} step(s) were to redo",
    (
        Why.STALE_EPOCH,
        "reached",
    ): "late news of run {epoch} of it: it had got to step {reached} before it ended",
}
