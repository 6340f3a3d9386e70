package dcqcn

import "time"

// notifyPeriod is the time between notifications of one flow at least: N of the paper.
const notifyPeriod = 50 * time.Microsecond

// Notifier decides when the sender of one flow is told of marked packets. The zero
// value is ready.
type Notifier struct{ quiet time.Time }

// Marked takes in that a marked packet has come, and says whether to send a
// notification now.
func (n *Notifier) Marked(now time.Time) bool {
	if now.Before(n.quiet) {
		return false
	}
	n.quiet = now.Add(notifyPeriod)
	return true
}
