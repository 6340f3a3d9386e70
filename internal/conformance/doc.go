// Package conformance has only tests: they run the driver of this module and libmlx5
// through the same calls, each on a software NIC of its own, and compare what both say
// to it: commands, work queue entries, doorbells and doorbell records, field by field.
// docs/conformance.md tells how and has the table of the differences.
package conformance
