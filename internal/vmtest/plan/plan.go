// Package plan is what the host and the first process of a guest tell each
// other: the host a [Plan], in a file of the initramfs; the guest [Report]s, by
// a serial line, as JSON values one after the other.
package plan

import "time"

// File is where a guest finds its plan.
const File = "/plan.json"

// SetupFile is where it finds the script that sets it up, if there is one.
const SetupFile = "/setup"

// A Plan is what a guest does.
type Plan struct {
	Modules []string // files, in loading order
	Setup   []string // a command that runs first; none if empty
	Env     []string // of the set-up and of every job
	Jobs    []Job
}

// A Job is a command that a guest runs.
type Job struct {
	Dir     string
	Command []string
	Env     []string
	Timeout time.Duration // then it is killed, with the processes it started
}

// Events of a report.
const (
	Up     = "up"     // the guest's first process runs, modules are loaded and the set-up is done
	Failed = "failed" // it could not: Err says why, and nothing follows
	Output = "output" // Job wrote Output
	End    = "end"    // Job ended, with Status or Err
	Done   = "done"   // all jobs ended; nothing follows
)

// A Report is a guest's word to its host.
type Report struct {
	Event   string
	Job     int           `json:",omitempty"`
	Output  []byte        `json:",omitempty"`
	Status  int           `json:",omitempty"` // exit status; -1 if the job was killed
	Err     string        `json:",omitempty"`
	Elapsed time.Duration `json:",omitempty"`
}
