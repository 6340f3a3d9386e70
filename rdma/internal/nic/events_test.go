package nic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/verbs"
)

type overruns struct{ n int }

func (o *overruns) Completed() {}

func (o *overruns) Failed(overrun bool) {
	if overrun {
		o.n++
	}
}

// An event of a completion queue's reaches its owner and the subscribers; one of
// an object that is gone, the subscribers alone.
func TestCompletionQueueEvent(t *testing.T) {
	var d Device
	d.registry.init()
	var o overruns
	var seen []Event
	defer d.Subscribe(func(e Event) { seen = append(seen, e) })()
	id := d.AddCQ(&o)
	d.dispatch(verbs.Event{Type: verbs.EventCQError, Element: id})
	d.Remove(id)
	d.dispatch(verbs.Event{Type: verbs.EventCQError, Element: id})
	require.Equal(t, 1, o.n)
	require.Equal(t, []Event{{Type: verbs.EventCQError}, {Type: verbs.EventCQError}}, seen)
	require.NoError(t, d.Failure())
}
