"""Beans of stores, scheduled messages, prepared branches, slow consumers, health and loggers."""

from __future__ import annotations

import time

from spanwire.logs.levels import ROOT
from spanwire.management.beans import executions
from spanwire.management.beans.bean import Bean, consumer_name, number, reference, strategy_name, values_of
from spanwire.management.beans.executions import DATE, Node
from spanwire.management.beans.names import quoted
from spanwire.management.beans.source import BeanSource
from spanwire.management.health import Level, broker_checks
from spanwire.management.tables.operation_table import COMMAND_ROLES
from spanwire.management.tables.view_table import CONSUMERS, rows_of
from spanwire.management.tables.work_tables import BRANCHES, JOBS, STORES, STRATEGIES


async def branch_beans(source: BeanSource, broker: str) -> list[Bean]:
    return [
        Bean(
            f"{broker},transactionType=RecoveredXaTransaction,xid={quoted(str(row['xid']))}",
            {
                "FormatId": row["format_id"],
                "GlobalTransactionId": _octets(row["global_id"]),
                "BranchQualifier": _octets(row["branch_qualifier"]),
            },
            executions.BRANCH,
            {"xid": row["xid"]},
        )
        for row in rows_of(BRANCHES, await source.view(BRANCHES.command))
    ]


async def scheduler_beans(source: BeanSource, broker: str) -> list[Bean]:
    jobs = {str(row["job_id"]): values_of(JOBS, row) for row in rows_of(JOBS, await source.view(JOBS.command))}
    first = min((number(job["next"]) for job in jobs.values()), default=None)
    shown = {key: {**job, "next": _date(number(job["next"]))} for key, job in jobs.items()}
    attributes: Node = {
        "AllJobs": shown,
        "NextScheduleTime": None if first is None else _date(first),
        "NextScheduleJobs": {key: job for key, job in shown.items() if number(jobs[key]["next"]) == first},
        "ScheduledMessageCount": len(jobs),
        "DelayedMessageCount": sum(not job["cronEntry"] and number(job["repeat"]) == 0 for job in jobs.values()),
    }
    return [Bean(f"{broker},service=JobScheduler,name=JMS", attributes, executions.SCHEDULER, {})]


async def strategy_beans(source: BeanSource, broker: str) -> list[Bean]:
    """Return the strategies for slow consumers."""
    rows = rows_of(STRATEGIES, await source.view(STRATEGIES.command))
    if not rows:
        return []
    consumers = {row["consumer_id"]: row for row in rows_of(CONSUMERS, await source.view(CONSUMERS.command))}
    names = {consumer_name(broker, row): row for row in consumers.values()}
    beans: list[Bean] = []
    for row in rows:
        attributes = values_of(STRATEGIES, row)
        if row["max_since_ack_ms"] is None:
            del attributes["MaxTimeSinceLastAck"]
        slow = row["slow"]
        attributes["SlowConsumers"] = [
            {
                "Consumer": reference(consumer_name(broker, consumers[one["consumer_id"]])),
                "SlowCount": one["slow_count"],
                "MarkCount": one["mark_count"],
            }
            for one in (slow if isinstance(slow, list) else [])
            if one["consumer_id"] in consumers
        ]
        subject: Node = {"name": row["name"], "consumers": names}
        beans.append(Bean(strategy_name(broker, row["name"]), attributes, executions.STRATEGY, subject))
    return beans


async def health_beans(source: BeanSource, broker: str) -> list[Bean]:
    faults = [check for check in broker_checks(await source.status()) if check.level > Level.OK]
    text = "; ".join(f"{check.name}: {check.text}" for check in faults)
    status = f"Getting Worried {{{text}}}" if faults else "Good"
    rows = [
        {
            "healthId": check.name,
            "level": check.level.name,
            "message": check.text,
            "resource": broker,
        }
        for check in faults
    ]
    attributes: Node = {"CurrentStatus": status, "Checks": rows}
    return [Bean(f"{broker},service=Health", attributes, executions.HEALTH, {})]


async def logging_beans(source: BeanSource, broker: str) -> list[Bean]:
    """Return the bean of loggers to a user with the right to set levels."""
    if source.role < COMMAND_ROLES["log-level"]:
        return []
    return [Bean(f"{broker},service=Log4JConfiguration", {}, executions.LOGGING, {}, _levels)]


async def _levels(source: BeanSource, broker: str) -> Node:
    answer = await source.ask("log-level")
    rows = [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
    loggers = [{"name": row["logger"], "level": str(row["level"]).upper()} for row in rows]
    root = next((one["level"] for one in loggers if one["name"] == ROOT), None)
    return {"RootLogLevel": root, "Loggers": loggers}


async def store_beans(source: BeanSource, broker: str) -> list[Bean]:
    return [
        Bean(
            f"{broker},service=PersistenceAdapter,instanceName={quoted(str(row['name']))}",
            values_of(STORES, row),
        )
        for row in rows_of(STORES, await source.status())
    ]


def _octets(hexadecimal: object) -> list[int]:
    """Return the bytes of a text as Java's signed numbers."""
    return [octet - 256 if octet > 127 else octet for octet in bytes.fromhex(str(hexadecimal))]


def _date(wall_ms: int) -> str:
    return time.strftime(DATE, time.localtime(wall_ms / 1000))
