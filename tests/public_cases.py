"""Which test proves what of the faults that users of such software have met elsewhere and told of in public.

Each fault has an id, its area and a number, and a sentence: what went wrong for users; what is right. A test that
proves ours to be right names the id in its docstring. What of a fault does not concern this project, or is decided
otherwise here, says so, with the clause that says what is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Case:
    """One fault and its tests: ``FILE::FUNCTION`` below ``tests/``. ``otherwise`` is a sentence, or empty."""

    fault: str
    tests: tuple[str, ...]
    otherwise: str = ""


NUMBERS: Final = {
    "HTTP": (1, 2, 4, 5, 7, 8, 10, 11, 13, 14),
    "OVER": (1, 2, 4, 5, 7, 8, 10, 11, 13),
    "DRAIN": (1, 2, 4, 5, 7, 8, 10, 11),
    "SSE": (1, 2, 4, 5, 7, 8, 10, 11, 13),
    "PROBE": (1, 2, 4, 5, 7, 8, 10, 11, 13, 14),
    "EXEC": (1, 2, 4, 5, 7, 8, 10, 11),
    "TOPO": (1, 2, 4, 5, 7, 8, 10, 11),
    "STORE": (1, 2, 4, 5, 7, 8, 10, 11),
    "SEC": (1, 2, 4, 5, 7, 8, 10),
    "CLI": (1, 2, 4, 5, 7, 8, 10),
}
"""The ids, by area: every fault that this project was told of. A number is a name and counts nothing. There are gaps
(HTTP-03 is the id of nothing here), and no row is missing in them: nobody told this project of such a fault."""

CASES: Final[dict[str, Case]] = {
    "HTTP-01": Case(
        (
            "Signs, underscores and foreign digits passed as a length that the proxy in front read otherwise; a "
            "length is ASCII digits alone, else 400."
        ),
        (
            "functional/test_limits.py::test_body_limit",
            "httpd/test_inspection.py::test_declared_body_too_large",
            "httpd/test_request_rules.py::test_refused",
            "httpd/test_request_rules.py::test_accepted",
        ),
    ),
    "HTTP-02": Case(
        (
            "Of two statements of a body's length one was picked in silence, and requests could be smuggled; it is "
            "an error, and the connection ends."
        ),
        ("httpd/test_request_rules.py::test_refused",),
    ),
    "HTTP-04": Case(
        (
            "A refusal left the body unread, and the next thing executed was that body as a request; who does not "
            "read a body closes the connection."
        ),
        (
            "functional/test_endings.py::test_second_request_is_never_answered",
            "functional/test_endings.py::test_body_that_is_a_request",
            "functional/test_refusals.py::test_same_verdict_whole_bytewise_and_with_more_behind",
            "control_tower/test_public_reports.py::test_a_body_that_is_a_request_is_never_one",
            "functional/test_handlers.py::test_exception_is_an_envelope_and_one_line",
        ),
    ),
    "HTTP-05": Case(
        (
            "Who asked leave to upload was told to go on and then refused, or waited in vain; a refusal comes at "
            "once, without a 100 before it."
        ),
        (
            "functional/test_refusals.py::test_continue_then_answer",
            "functional/test_refusals.py::test_no_continue",
            "httpd/test_request_rules.py::test_accepted",
            "control_tower/test_public_reports.py::test_nobody_is_asked_for_a_body_that_is_refused",
        ),
    ),
    "HTTP-07": Case(
        (
            "A stray CR, a blank before the colon or a folded line forged header fields or made later ones vanish; a "
            "malformed line is 400."
        ),
        ("httpd/test_request_rules.py::test_refused",),
    ),
    "HTTP-08": Case(
        (
            "A request with no `Host`, or with two, got past a guard that relies on it; HTTP/1.1 needs exactly one, "
            "and in a full URL the host there counts."
        ),
        (
            "httpd/test_request_rules.py::test_refused",
            "httpd/test_request_rules.py::test_accepted",
            "control_tower/test_public_reports.py::test_a_target_is_judged_by_its_own_authority",
        ),
    ),
    "HTTP-10": Case(
        (
            "Any verb worked as GET did, and the body after HEAD broke the following answer; HEAD has no body, other "
            "verbs are 405 or 501."
        ),
        (
            "control_tower/test_server.py::test_head_is_get_without_a_body",
            "control_tower/test_server.py::test_known_methods_get_405_with_allow",
            "control_tower/test_server.py::test_unknown_methods_get_501",
            "functional/test_streams.py::test_head_request",
            "httpd/test_request_rules.py::test_accepted",
        ),
        ("One request a connection (HS-7.1): a body behind HEAD could reach no other answer, and there is none."),
    ),
    "HTTP-11": Case(
        (
            "A path with two slashes in front became a redirect to a stranger's site; no `Location` may lead off "
            "this server."
        ),
        (
            "control_tower/test_server.py::test_strange_paths_are_404",
            "httpd/test_request_rules.py::test_accepted",
            "test_cli.py::test_serve_folder_redirects_stay_here",
            "control_tower/test_public_reports.py::test_a_target_is_judged_by_its_own_authority",
        ),
    ),
    "HTTP-13": Case(
        (
            "An encoded NUL, or a drive's letter, in a path was a crash or a file from outside the folder; such a "
            "path is 404 or 400."
        ),
        (
            "control_tower/test_server.py::test_strange_paths_are_404",
            "httpd/test_request_rules.py::test_accepted",
            "test_cli.py::test_serve_folder_strange_paths",
        ),
    ),
    "HTTP-14": Case(
        (
            "Single fields were limited but not their sum, so a few clients took much memory; a head as a whole has "
            "a limit, 431 or 414."
        ),
        (
            "functional/test_limits.py::test_head_limits",
            "functional/test_overload.py::test_heads_are_on_the_budget",
            "httpd/test_head_reader.py::test_header_bytes_at_the_default",
            "httpd/test_request_rules.py::test_refused",
        ),
    ),
    "OVER-01": Case(
        (
            "Connections on which nothing was ever said kept a thread each until none was left; they end after a "
            "time, and cost nobody an answer."
        ),
        (
            "functional/test_logs.py::test_no_line_for_hostile_clients",
            "functional/test_resources.py::test_slowhttptest",
            "functional/test_slow_clients.py::test_slow_head",
            "functional/test_slow_clients.py::test_hostile_crowd_costs_no_thread",
            "functional/test_eviction.py::test_no_lock_out",
        ),
    ),
    "OVER-02": Case(
        (
            "A client that announced a large body and sent a few bytes kept its thread for good; a body has a "
            "deadline, then it is 408."
        ),
        ("functional/test_resources.py::test_slowhttptest", "functional/test_slow_clients.py::test_stalled_bodies"),
    ),
    "OVER-04": Case(
        (
            "A client that read nothing blocked whoever wrote to it, the accept loop too; writing has a timeout, and "
            "a refusal waits for nobody."
        ),
        (
            "functional/test_refusals.py::test_refusals_do_not_wait_for_their_reader",
            "functional/test_resources.py::test_slowhttptest",
            "functional/test_slow_clients.py::test_unread_response_is_dropped",
        ),
    ),
    "OVER-05": Case(
        (
            "A slow reader that never paused was cut off in a large answer, which the log called a success; the "
            "timeout is for a lack of progress."
        ),
        (
            "functional/test_logs.py::test_access_log_tells_of_a_cut",
            "functional/test_slow_clients.py::test_slow_but_steady_reader_gets_all",
        ),
    ),
    "OVER-07": Case(
        (
            "Health checks queued behind the work, and a server that was only busy was killed; probes have capacity "
            "that work cannot take."
        ),
        (
            "functional/test_overload.py::test_probes_answer_at_the_cap",
            "control_tower/test_public_reports.py::test_probes_while_work_and_streams_are_full",
        ),
    ),
    "OVER-08": Case(
        (
            "Connections at rest filled the limit, and newcomers got 503 while nothing ran; those at rest are the "
            "first to give way."
        ),
        (
            "functional/test_slow_clients.py::test_hostile_crowd_costs_no_thread",
            "functional/test_eviction.py::test_no_lock_out",
        ),
        "No connection is kept alive (HS-7.1); those that wait for a request give way to newcomers (HS-8.1).",
    ),
    "OVER-10": Case(
        (
            "When no thread could be started the request was lost, and its place in the limit as well; it is "
            "refused, and its place is free again."
        ),
        ("functional/test_overload.py::test_thread_that_cannot_start",),
    ),
    "OVER-11": Case(
        (
            "Clients that hung up early left threads and sockets behind, for as long as the server ran; after any "
            "ending the counts are as before."
        ),
        ("functional/test_endings.py::test_client_leaves", "functional/test_resources.py::test_nothing_leaks"),
    ),
    "OVER-13": Case(
        "A queue of five for new connections made a burst of them stall or fail; it holds 128 at least.",
        ("functional/test_limits.py::test_backlog_is_set",),
    ),
    "DRAIN-01": Case(
        (
            "A stop that the signal handler itself waited for never came to its end, and only SIGKILL helped; a "
            "handler only leaves word, and all modes end."
        ),
        (
            "functional/test_signals.py::test_signal_drains_and_exits_0",
            "functional/test_signals.py::test_signals_under_load_and_shutdown_from_a_signal_handler",
            "functional/test_signals.py::test_keyboard_interrupt",
        ),
    ),
    "DRAIN-02": Case(
        (
            "A second signal met a lock that the first one held, and the process hung until it was killed; it "
            "changes nothing or ends it at once, store whole."
        ),
        (
            "functional/test_signals.py::test_second_signal_ends_at_once",
            "functional/test_signals.py::test_many_signals",
            "test_public_reports.py::test_a_second_signal_leaves_the_store_whole",
        ),
    ),
    "DRAIN-04": Case(
        (
            "Requests that ran were cut off in spite of a grace period; they are answered in full, and the process "
            "ends right after them."
        ),
        (
            "functional/test_drain.py::test_in_flight_requests_finish",
            "functional/test_signals.py::test_signal_drains_and_exits_0",
        ),
    ),
    "DRAIN-05": Case(
        (
            "A browser's idle connection made each stop take the full deadline and fail; only what is asked is "
            "waited for."
        ),
        (
            "functional/test_drain.py::test_idle_drain_ends_within_a_second",
            "functional/test_signals.py::test_idle_process_ends_within_a_second",
        ),
        "No connection is kept alive (HS-7.1); those without a request end with the drain (HS-9.2).",
    ),
    "DRAIN-07": Case(
        (
            "A server that was to stop refused connections, or failed its liveness, while traffic still came; it is "
            "first not ready, and stays alive."
        ),
        ("functional/test_overload.py::test_timeline_of_a_drain",),
        (
            "The delay is the orchestrator's, a preStop hook, which the page for Kubernetes has; in a drain what is "
            "new is 503 at once, on a listener that closes last (HS-9.1, HS-9.3)."
        ),
    ),
    "DRAIN-08": Case(
        (
            "As process 1 it ignored SIGTERM, and a signal during the start was lost; handlers are set before "
            "anything slow."
        ),
        (
            "functional/test_signals.py::test_early_signal_is_not_lost",
            "functional/test_signals.py::test_process_1",
            "httpd/test_signals.py::test_signal_before_the_server",
        ),
    ),
    "DRAIN-10": Case(
        (
            "One stuck handler held the stop up for ever; at the deadline it is given up, named in the log, and the "
            "process ends."
        ),
        (
            "functional/test_drain.py::test_stuck_handlers_are_abandoned",
            "functional/test_drain.py::test_drain_under_hostile_clients",
            "functional/test_signals.py::test_stuck_handler_does_not_keep_the_process",
        ),
    ),
    "DRAIN-11": Case(
        ("Ctrl-C had no effect on Windows while the program waited without a timeout; a stop begins within a second."),
        (
            "functional/test_ctrl_c.py::test_first_waits_for_the_end_of_a_turn",
            "functional/test_ctrl_c.py::test_drain_can_be_interrupted",
        ),
        (
            "Of Windows nothing is claimed (HTTP server, What is not claimed). On POSIX Ctrl-C is seen wherever "
            "the loop is (HS-9.4)."
        ),
    ),
    "SSE-01": Case(
        "A line end in an event's name or id let data forge events in the browser; no value may add a field.",
        ("httpd/test_sse.py::test_no_value_adds_a_field",),
    ),
    "SSE-02": Case(
        (
            "A lone CR in the data forged a field, and too eager a split changed the text; the three line ends of "
            "the standard split, nothing else."
        ),
        (
            "httpd/test_sse.py::test_text_arrives_as_it_was",
            "httpd/test_sse.py::test_any_text_is_one_event",
            "httpd/test_sse.py::test_half_a_surrogate_pair_ends_no_stream",
        ),
    ),
    "SSE-04": Case(
        (
            "Proxies cut streams on which nothing happened, and nobody knew a dead one from a quiet one; a comment "
            "comes every few seconds."
        ),
        ("functional/test_streams.py::test_heartbeat", "functional/test_streams.py::test_a_heartbeat_is_never_torn"),
    ),
    "SSE-05": Case(
        (
            "A viewer that had gone still held its place, until nobody could watch; the place is free again in a "
            "bounded time."
        ),
        (
            "functional/test_streams.py::test_a_client_that_left_frees_its_place",
            "functional/test_streams.py::test_a_client_that_does_not_read",
            "functional/test_streams.py::test_a_client_whose_network_is_gone",
        ),
    ),
    "SSE-07": Case(
        (
            "Who came back got the whole history again, and the page showed all twice; after `Last-Event-ID` come "
            "the later events, once."
        ),
        ("control_tower/test_events.py::test_reconnect_gets_the_missed_events_alone",),
        "State is not sent on the stream, so no event is without an id but the goodbye (EV-5.3, EV-5.8).",
    ),
    "SSE-08": Case(
        (
            "What was published between the replay and the live part never arrived; every event after the position "
            "comes, in order and once."
        ),
        (
            "functional/test_streams.py::test_published_while_history_is_read",
            "functional/test_streams.py::test_many_clients_resume_while_events_flow",
        ),
    ),
    "SSE-10": Case(
        (
            "With a position that was no longer kept, or never was, events were missing in silence or the stream "
            "failed; the client is told to start anew."
        ),
        (
            "control_tower/test_events.py::test_cursor_below_the_floor",
            "control_tower/test_events.py::test_last_event_id_that_is_no_position",
            "ui/test_truth.py::test_position_given_up_by_retention",
        ),
        (
            "A position that is not there is refused with what to do, and the page begins anew: no reset within a"
            " stream (EV-5.4)."
        ),
    ),
    "SSE-11": Case(
        (
            "A browser gives a stream up for good after one 503, and the page stood still in silence; the page "
            "itself tries again and shows its state."
        ),
        ("ui/test_truth.py::test_retry_after_is_honoured", "ui/test_truth.py::test_streams_are_all_taken"),
    ),
    "SSE-13": Case(
        (
            "A proxy on the way held events back, to deliver them in bulk; the headers forbid it, and each event "
            "arrives as it happens."
        ),
        (
            "functional/test_stream_clients.py::test_through_a_proxy_that_buffers",
            "functional/test_streams.py::test_head_and_first_bytes_come_at_once",
        ),
        "The framing is the connection's end (EV-5.1).",
    ),
    "PROBE-01": Case(
        (
            "Liveness asked the database, and an outage of it restarted every healthy instance; liveness asks no "
            "dependency, readiness does."
        ),
        (
            "control_tower/test_health.py::test_ten_hung_dependencies_hold_nobody_up",
            "control_tower/test_public_reports.py::test_liveness_opens_nothing_to_a_dependency",
            "health/test_fault_table.py::test_nothing_is_restarted_by_an_outage",
            "rehearsal/test_serving.py::test_faults_of_real_dependencies",
        ),
    ),
    "PROBE-02": Case(
        (
            "The thread that looked had died, and its last verdict was given out for ever; a verdict that is too old "
            "does not count, and says its age."
        ),
        (
            "control_tower/test_health.py::test_what_is_too_old_is_not_ok",
            "health/test_fault_table.py::test_an_outage_is_noticed_in_time",
            "health/test_fault_table.py::test_its_end_is_noticed_in_time",
            "health/test_runner.py::test_a_scheduler_that_stalls_is_noticed",
            "health/test_runner.py::test_a_result_that_came_in_time_counts_after_a_stall",
            "health/test_runner.py::test_a_scheduler_that_dies_is_noticed",
        ),
    ),
    "PROBE-04": Case(
        (
            "Checks in a row, each with a long timeout, outlasted the probe, and what was well looked ill; one that "
            "hangs delays no other."
        ),
        (
            "control_tower/test_health.py::test_ten_hung_dependencies_hold_nobody_up",
            "health/test_runner.py::test_ten_that_hang_delay_no_other_and_no_answer",
        ),
    ),
    "PROBE-05": Case(
        (
            "Each of many callers began a run of its own against a slow dependency; a check runs once at a time, and "
            "all get its result."
        ),
        (
            "control_tower/test_public_reports.py::test_two_hundred_ask_while_a_dependency_is_slow",
            "health/test_runner.py::test_two_hundred_ask_and_one_run_begins",
        ),
    ),
    "PROBE-07": Case(
        (
            "A single lost packet woke people up, and a single success hid an outage; a state changes after so many "
            "results in a row, each way."
        ),
        (
            "health/test_fault_table.py::test_what_takes_no_traffic_away",
            "health/test_fault_table.py::test_a_flap_above_its_thresholds_is_followed",
            "health/test_state.py::test_sequences",
        ),
    ),
    "PROBE-08": Case(
        (
            "A correction of the clock made the living look dead, or a drain endless; durations are taken from a "
            "clock that nobody sets."
        ),
        (
            "health/test_public_reports.py::test_a_wall_clock_that_jumps_changes_no_verdict",
            "health/test_rounds.py::test_wall_clock_steps_change_nothing",
            "health/test_watchdog.py::test_wall_clock_steps_change_nothing",
            "test_clock.py::test_who_reads_the_wall_clock",
        ),
    ),
    "PROBE-10": Case(
        (
            "A guard of the `Host` field refused the orchestrator's own probes, and pods restarted without end; "
            "probe paths answer under any host."
        ),
        (
            "control_tower/test_server.py::test_probes_answer_under_any_host",
            "control_tower/test_server.py::test_every_other_path_needs_this_host",
            "functional/test_probe_listener.py::test_a_program_has_probes_on_a_port_of_their_own",
        ),
    ),
    "PROBE-11": Case(
        (
            "A log line for each probe buried what mattered; there is a line where the verdict changes, and none "
            "while all is well."
        ),
        (
            "control_tower/test_public_reports.py::test_probes_that_are_well_are_no_lines",
            "test_cli.py::test_probes_are_logged_when_their_status_changes",
        ),
    ),
    "PROBE-13": Case(
        (
            "What a service can do without took it out of traffic, or a check that never ran was called good; only "
            "what is critical decides."
        ),
        (
            "control_tower/test_public_reports.py::test_every_outcome_beside_every_weight",
            "health/test_fault_table.py::test_what_takes_no_traffic_away",
            "health/test_readiness.py::test_truth_table",
        ),
    ),
    "PROBE-14": Case(
        (
            "A probe was sent on a connection that the server was just closing, and counted as failed; a probe's "
            "connection ends with its answer."
        ),
        ("control_tower/test_public_reports.py::test_a_probe_is_no_connection_that_is_kept",),
        "No connection is kept alive (HS-7.1).",
    ),
    "EXEC-01": Case(
        (
            "After its timeout a command ran on, and more of them came until the machine had nothing left; it is "
            "ended, and the result is a failure."
        ),
        (
            "health/test_probes_command.py::test_a_timeout",
            "health/test_public_reports.py::test_commands_that_never_end_do_not_pile_up",
            "rehearsal/test_serving.py::test_faults_of_real_dependencies",
            "workloads/test_process_driver.py::test_the_limit",
        ),
    ),
    "EXEC-02": Case(
        (
            "The command was killed but not what it had started, which held the pipe open for hours; the whole group "
            "ends, and nobody waits for the pipe."
        ),
        (
            "health/test_probes_command.py::test_a_timeout",
            "health/test_probes_command.py::test_an_escaped_grandchild_is_not_waited_for",
            "workloads/test_process_driver.py::test_the_limit",
            "workloads/test_process_driver.py::test_left_behind_in_the_group",
            "workloads/test_process_driver.py::test_left_behind_in_another_session",
        ),
    ),
    "EXEC-04": Case(
        (
            "Commands that had ended were left as zombies; each child is waited for, and process 1 takes care of "
            "orphans too."
        ),
        (
            "health/test_probes_command.py::test_as_the_parent_of_orphans",
            "health/test_probes_leaks.py::test_two_hundred_runs",
            "workloads/test_process_driver.py::test_nothing_is_left",
        ),
    ),
    "EXEC-05": Case(
        (
            "A check ate the input of the script around it, so that a loop ended after a line; a check has an empty "
            "input and no terminal."
        ),
        (
            "health/test_probes_command.py::test_where_it_runs",
            "health/test_probes_command.py::test_a_caller_keeps_its_input",
            "workloads/test_process_driver.py::test_input_and_place",
            "workloads/test_lxd_link.py::test_a_command_gets_no_terminal",
        ),
    ),
    "EXEC-07": Case(
        (
            "Much output filled the memory, or a full pipe stopped the command; all is read, little is kept, and the "
            "exit code decides."
        ),
        (
            "health/test_probes_command.py::test_output_is_read_and_dropped",
            "health/test_probes_command.py::test_output_changes_nothing",
            "workloads/test_process_driver.py::test_much_output",
        ),
    ),
    "EXEC-08": Case(
        (
            "Bytes that are not UTF-8 raised in the reader and failed a good check; they are replaced, and change no "
            "verdict."
        ),
        (
            "health/test_probes_command.py::test_a_timeout",
            "health/test_probes_command.py::test_output_changes_nothing",
            "workloads/test_process_driver.py::test_the_limit",
            "workloads/test_process_driver.py::test_much_output",
            "workloads/test_process_driver.py::test_a_flood_is_taken_slowly",
        ),
    ),
    "EXEC-10": Case(
        (
            "When the platform lost a command's exit code, clients hung or took that for success; no code is no "
            "success, within the check's time."
        ),
        (
            "health/test_probes_command.py::test_no_code_is_no_success",
            "workloads/test_lxd_answers.py::test_what_an_end_says",
            "workloads/test_lxd_link.py::test_an_exec_that_does_not_begin",
            "workloads/test_lxd_link.py::test_a_websocket_that_is_refused",
            "workloads/test_lxd_link.py::test_a_daemon_that_hangs",
            "workloads/test_lxd_link.py::test_an_exec_that_hangs",
        ),
    ),
    "EXEC-11": Case(
        ("A time or a counter in the output passed for a change, and services were restarted; only the status counts."),
        (
            "health/test_public_reports.py::test_output_that_changes_is_no_change",
            "health/test_public_reports.py::test_a_flapping_command_is_no_change",
        ),
    ),
    "TOPO-01": Case(
        (
            "A registry that restarted sent an empty list, and clients dropped providers that were well; users asked "
            "to keep the last good list for a time."
        ),
        (
            "topology/test_public_reports.py::test_an_empty_list_of_a_registry_that_restarts",
            "topology/test_public_reports.py::test_a_large_drop",
        ),
        "Fail closed: an empty set counts at once, and no last good set is kept (RT-2.5).",
    ),
    "TOPO-02": Case(
        (
            "The protection from empty lists hid for ever that the last instance had gone; a removal has to come "
            "through in the end."
        ),
        ("topology/test_public_reports.py::test_a_removal_is_never_hidden",),
        "Fail closed: a removal is never held back, so there is nothing to end (RT-2.5).",
    ),
    "TOPO-04": Case(
        (
            "A half-written file or a `null` ended the watcher, or was a log line at every look; bad content is told "
            "once, and the watcher lives on."
        ),
        (
            "topology/test_file.py::test_what_is_malformed",
            "topology/test_file.py::test_documents_that_are_none",
            "topology/test_file.py::test_rows_that_are_none",
            "topology/test_file.py::test_documents",
            "topology/test_file.py::test_what_cannot_be_read",
        ),
        (
            "Fail closed: what is bad for a second fails every watch (RT-2.5, RT-6.4), and is one line for as "
            "long as it lasts (RT-6.5)."
        ),
    ),
    "TOPO-05": Case(
        (
            "A watcher of one inode missed renames, swapped links and edits within a second; every change is seen, "
            "and a touch is none."
        ),
        (
            "topology/test_file.py::test_each_way_of_change",
            "topology/test_file.py::test_symbolic_links_two_levels_up",
            "topology/test_file.py::test_a_touch_is_no_change",
            "topology/test_file.py::test_what_cannot_be_read",
            "topology/test_file.py::test_a_right_that_is_taken_away",
        ),
        "A file that is gone for a second is unavailable, and no last good set is kept (RT-2.5, RT-6.4).",
    ),
    "TOPO-07": Case(
        (
            "A watch stayed open and silent, and the view grew old for hours without an error; silence is found out "
            "in a bounded time."
        ),
        (
            "topology/test_etcd.py::test_a_stream_that_is_silent",
            "topology/test_etcd.py::test_the_network_is_cut",
            "topology/test_etcd.py::test_a_right_that_is_missed_later",
            "topology/test_nacos.py::test_a_right_that_is_missed_later",
        ),
        "A watch that has gone silent is a failure, with nothing served from before (RT-2.5, RT-7.3).",
    ),
    "TOPO-08": Case(
        (
            "A registry's index went back after a restore, and the client waited for the old one for ever; an index "
            "that falls begins anew."
        ),
        ("topology/test_etcd.py::test_an_etcd_that_is_set_back",),
        "Consul is no provider. What goes back is a revision of etcd's, as after a restore (RT-7.2).",
    ),
    "TOPO-10": Case(
        (
            "A big rollout made an event for each instance, and a shuffled list one without any change; equal "
            "content is no event."
        ),
        (
            "topology/test_public_reports.py::test_equal_content_in_another_order",
            "topology/test_public_reports.py::test_a_big_rollout",
        ),
        "Only a change of state is an event, so that there is nothing to be put together (RT-10.2).",
    ),
    "TOPO-11": Case(
        (
            "Any error of the registry emptied the view, though a good list was at hand; an error is told as one, "
            "and is no removal."
        ),
        ("topology/test_public_reports.py::test_any_error_of_a_registry",),
        "Fail closed: a failure is told as one, and nothing is served from before (RT-2.5).",
    ),
    "STORE-01": Case(
        (
            "Writers failed at once with a locked database, whatever the timeout, since a read came first; the lock "
            "is taken first, and waited for."
        ),
        ("events/test_processes.py::test_threads_and_processes",),
    ),
    "STORE-02": Case(
        (
            "A reader that stood still kept the write-ahead log growing without end; readers hold nothing, and the "
            "log's size is watched."
        ),
        (
            "events/test_recorder.py::test_a_foreign_reader_is_told_of",
            "events/test_store.py::test_readers_hold_nothing",
            "events/test_store.py::test_a_foreign_reader_keeps_the_log",
        ),
    ),
    "STORE-04": Case(
        (
            "A damaged file ended each start, or every few seconds in a traceback, with no advice; it is set aside, "
            "and a line gives advice."
        ),
        (
            "events/test_damage.py::test_damaged_at_start",
            "events/test_damage.py::test_damage_that_a_reader_meets",
            "events/test_damage.py::test_damage_that_the_writer_meets",
        ),
    ),
    "STORE-05": Case(
        (
            "On a network folder the store was ruined, and health still said ok; such a folder is told of, and a "
            "store that fails is not ready."
        ),
        (
            "control_tower/test_documents.py::test_a_store_that_fails_is_not_ready",
            "events/test_places.py::test_a_network_folder",
        ),
    ),
    "STORE-07": Case(
        (
            "An older version wrote into a newer store, or an update stopped halfway; a newer one is left alone, and "
            "an update is all or nothing."
        ),
        (
            "events/test_damage.py::test_what_is_left_alone",
            "events/test_processes.py::test_all_open_a_new_store_at_once",
            "events/test_processes.py::test_killed_while_it_brings_a_store_up",
            "events/test_store.py::test_an_older_file_is_brought_up_in_one_transaction",
        ),
    ),
    "STORE-08": Case(
        (
            "A look by another user failed, or left root's files that shut the service out; looking makes and "
            "changes no file."
        ),
        ("events/test_command.py::test_nothing_is_made_or_changed", "events/test_command.py::test_no_right_to_read"),
        ("What cannot be read is asked of the service itself, by whoever has its token; the line says so (EV-4.5)."),
    ),
    "STORE-10": Case(
        "Events that had been acknowledged were gone after a crash; what is acknowledged is on the disk.",
        (
            "events/test_processes.py::test_killed_two_hundred_times",
            "events/test_processes.py::test_what_is_appended_is_on_the_disk",
        ),
    ),
    "STORE-11": Case(
        (
            "One connection for all threads raised errors, and a forked child broke its parent's locks; each thread "
            "is safe, and no child touches it."
        ),
        (
            "events/test_processes.py::test_many_threads",
            "events/test_processes.py::test_programs_that_are_started",
            "events/test_processes.py::test_forked_children",
        ),
    ),
    "SEC-01": Case(
        (
            "A site whose name was pointed at this machine could read all in the user's browser; a foreign `Host` is "
            "refused before anything else."
        ),
        (
            "control_tower/test_security.py::test_hosts_of_this_service",
            "control_tower/test_security.py::test_foreign_hosts",
            "control_tower/test_server.py::test_every_other_path_needs_this_host",
            "control_tower/test_server.py::test_legitimate_hosts_over_both_names",
        ),
    ),
    "SEC-02": Case(
        (
            "Any web page could send a form that changed something here; nothing changes without the token, the "
            "right type and the own origin."
        ),
        (
            "control_tower/test_documents.py::test_no_route_changes_anything",
            "control_tower/test_server.py::test_foreign_origins",
            "control_tower/test_server.py::test_preflight_gets_no_permission",
            "control_tower/test_server.py::test_inspection_refuses_what_it_does_not_read",
            "control_tower/test_server.py::test_inspection_needs_the_token_and_the_origin",
        ),
    ),
    "SEC-04": Case(
        (
            "A token in the address came to stand in logs, in the history and at other sites; it leaves the address "
            "at once and stands in no log."
        ),
        (
            "control_tower/test_events.py::test_token_stands_in_no_event_and_no_file",
            "control_tower/test_server.py::test_link_carries_the_token_in_the_fragment",
            "test_cli.py::test_token_is_in_no_log",
            "ui/test_tabs.py::test_token_leaves_the_address",
        ),
        "No cookie and no exchange: the token is in the fragment, which no browser sends (CT-2.6, CT-9.2).",
    ),
    "SEC-05": Case(
        (
            "A listener was open to the whole network without anybody's wish; only this machine is served unless "
            "that is asked for."
        ),
        (
            "control_tower/test_security.py::test_anything_else_is_refused_in_one_line",
            "test_cli.py::test_control_tower_refuses_other_addresses",
            "test_settings.py::test_nothing_listens_beyond_this_machine_unless_asked",
        ),
    ),
    "SEC-07": Case(
        (
            "Who came from loopback was trusted, and behind a local proxy that is everybody; nobody does without the "
            "token, and forwarding fields give nothing."
        ),
        ("control_tower/test_server.py::test_api_needs_the_token",),
        "No proxy can be configured for the tower: what such fields say is never used (CT-2.7).",
    ),
    "SEC-08": Case(
        (
            "Names and output were written as HTML, and ran with the operator's rights; they are text, under a "
            "strict policy."
        ),
        (
            "control_tower/test_server.py::test_every_answer_carries_the_fields",
            "ui/test_dependencies.py::test_hostile_words_are_text",
            "ui/test_events.py::test_hostile_data_is_text",
        ),
    ),
    "SEC-10": Case(
        (
            "A second program could take the same port on Windows and receive what was meant for the first; a port "
            "has one owner, and a restart gets it."
        ),
        (
            "test_public_reports.py::test_a_restart_takes_the_port_at_once",
            "test_public_reports.py::test_a_second_service_beside_a_wildcard",
        ),
        "Exclusive ports are Windows' own, of which nothing is claimed (HTTP server, What is not claimed).",
    ),
    "CLI-01": Case(
        (
            "A port in use was a traceback, or even exit code 0, and the supervisor believed it; it is one line with "
            "what to do, and a failure."
        ),
        (
            "test_cli.py::test_busy_port",
            "test_public_reports.py::test_an_address_that_cannot_be_bound",
            "test_public_reports.py::test_a_second_service_beside_a_wildcard",
            "functional/test_router.py::test_what_keeps_it_from_starting",
        ),
    ),
    "CLI-02": Case(
        (
            "With port 0 the line at the start said 0, and no script found the server; the real port is told once it "
            "can be connected to."
        ),
        (
            "test_cli.py::test_control_tower_announces_serves_and_ends_with_0",
            "test_cli.py::test_port_file_in_a_shared_folder",
            "test_cli.py::test_announced_port_accepts_at_once",
            "test_public_reports.py::test_the_first_line_where_nobody_flushes",
        ),
    ),
    "CLI-04": Case(
        "In a container no output appeared until a buffer was full; each line comes at once.",
        (
            "test_cli.py::test_control_tower_announces_serves_and_ends_with_0",
            "test_cli.py::test_announced_port_accepts_at_once",
            "test_public_reports.py::test_the_first_line_where_nobody_flushes",
        ),
    ),
    "CLI-05": Case(
        (
            "Once installed there was no page, since only a checkout had its files; a wheel has every file of the "
            "package."
        ),
        (
            "test_packaging.py::test_both_wheels_have_the_same_files",
            "test_packaging.py::test_the_wheel_has_every_file_of_the_package",
            "test_packaging.py::test_the_wheel_runs_where_the_tree_is_not",
        ),
    ),
    "CLI-07": Case(
        (
            "A missing extra was a bare import error that hid which one; the line names it and how to install it, "
            "and help works without."
        ),
        (
            "test_cli.py::test_help_does_not_load_the_server",
            "test_public_reports.py::test_help_without_any_extra",
            "topology/test_etcd.py::test_without_its_package",
            "topology/test_nacos.py::test_without_its_package",
            "workloads/test_service.py::test_an_extra_that_is_missing",
        ),
    ),
    "CLI-08": Case(
        (
            "A pipe that closed early, or a narrow encoding, ended a command in a traceback; it ends quietly, and "
            "any name can be printed."
        ),
        (
            "events/test_command.py::test_nobody_reads",
            "test_cli.py::test_closed_pipe_is_a_quiet_end",
            "test_cli.py::test_closed_standard_streams",
            "test_cli.py::test_inspect_request_prints_any_byte_in_any_encoding",
            "test_public_reports.py::test_no_encoding_error",
        ),
    ),
    "CLI-10": Case(
        (
            "IPv6 addresses failed, and `localhost` meant one family to the browser and another to the server; the "
            "family follows the address."
        ),
        (
            "control_tower/test_server.py::test_ipv6",
            "test_cli.py::test_localhost_and_brackets",
            "test_cli.py::test_serve_hosts",
        ),
        (
            "`localhost` is 127.0.0.1 alone, and the address that is printed is a number, so that no name is "
            "resolved twice (CT-2.1, CT-9.2)."
        ),
    ),
}
