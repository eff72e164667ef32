"""The checks as people run them alone; after every run the bodies record the same functions under the same names.

What does not belong here: what a check looks at (`checks.py`).
"""

import dagster as dg

from ingest_assets.checks import CHECKS
from ingest_assets.defs.check_metadata import check_metadata
from ingest_assets.defs.report import check_context
from ingest_assets.defs.resources import PlatformResource
from ingest_assets.verdicts import Check


def _asset_check(check: Check) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=check.asset, name=check.name, description=f"{check.meaning} {check.remedy}")
    def run_check(platform: PlatformResource) -> dg.AssetCheckResult:
        verdict = check.run(check_context(platform.get(), None))
        return dg.AssetCheckResult(
            passed=verdict.passed,
            severity=dg.AssetCheckSeverity[verdict.severity],
            description=verdict.summary,
            metadata=check_metadata(verdict),
        )

    return run_check


asset_checks = [_asset_check(check) for check in CHECKS]
