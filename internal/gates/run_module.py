"""Runs tests of one module of rdma-core's suite, and records how each went.

Arguments: --dev DEVICE RECORDS MODULE [TEST ...]

RECORDS gets a JSON object a line: {"tests": [ids]} of what is to be run, {"start": id},
and {"id": id, "outcome": "pass", "skip" or "fail", "reason": text}. The suite is the
package "tests" of the current folder.
"""

import importlib
import json
import os
import sys
import unittest

sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests")]

from args_parser import parser  # the suite's own


class Recorder(unittest.TestResult):
    """One record a test, the worst of what it reported."""

    def __init__(self, records):
        super().__init__()
        self.records = records

    def write(self, **record):
        print(json.dumps(record), file=self.records, flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.outcome, self.reason = "pass", ""
        self.write(start=name(test))

    def stopTest(self, test):
        super().stopTest(test)
        self.write(id=name(test), outcome=self.outcome, reason=self.reason)

    def fail(self, test, err):
        self.outcome, self.reason = "fail", self._exc_info_to_string(err, test)

    def addError(self, test, err):
        super().addError(test, err)
        self.fail(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.fail(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.fail(subtest, err)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.outcome, self.reason = "fail", "unexpected success"

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if self.outcome == "pass":
            self.outcome, self.reason = "skip", reason


def name(test):
    return test.id().removeprefix("tests.")


def cases(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from cases(t)
        else:
            yield t


def main():
    parser.parse_args()
    records, module, *wanted = sys.argv[1:]
    loaded = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module("tests." + module))
    chosen = [t for t in cases(loaded) if not wanted or name(t) in wanted]
    with open(records, "a") as out:
        recorder = Recorder(out)
        recorder.write(tests=[name(t) for t in chosen])
        unittest.TestSuite(chosen).run(recorder)


main()
