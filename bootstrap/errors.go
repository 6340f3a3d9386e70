package bootstrap

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// ErrMagic is inside the error of an exchange whose peer speaks something else. Such a
// peer gets no answer.
var ErrMagic = errors.New("peer does not speak the farwire bootstrap protocol")

// Code is the reason of a refusal, as on the wire. Unknown codes must be expected.
type Code uint16

// The codes of docs/bootstrap.md.
const (
	CodeOther     Code = 0
	CodeVersion   Code = 1 // no version in common
	CodeMalformed Code = 2 // a message that the protocol does not allow
	CodeFeatures  Code = 3 // a required feature is missing
	CodeEndpoint  Code = 4 // the endpoint cannot be connected to
	CodeBusy      Code = 5 // too many connections or handshakes; try again later
	CodeResources Code = 6 // no queue pair or memory to be had
	CodeSession   Code = 7 // an answer to something else
	CodeDenied    Code = 8 // not allowed
)

var codes = []string{"other reason", "no common version", "malformed message", "missing feature",
	"unusable endpoint", "busy", "out of resources", "wrong session", "denied"}

// String returns the reason in words.
func (c Code) String() string {
	if int(c) < len(codes) {
		return codes[c]
	}
	return fmt.Sprintf("code %d", uint16(c))
}

// RefusedError is the end of an exchange because one side would not go on. The
// functions given to an Exchange may return one to choose what the peer is told; of
// another error of theirs it hears CodeOther.
type RefusedError struct {
	Code   Code
	Text   string // for people; printable, at most 200 bytes on the wire
	Remote bool   // it was the peer that refused
	Err    error  // the local cause, which the peer is not told; may be nil
}

func (e *RefusedError) Error() string {
	var b strings.Builder
	b.WriteString("refused the peer: ")
	if e.Remote {
		b.Reset()
		b.WriteString("refused by the peer: ")
	}
	b.WriteString(e.Code.String())
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	return b.String()
}

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// asRefused returns the refusal that the peer is told because of err, or nil if it is
// told nothing.
func asRefused(err error) *RefusedError {
	var refused *RefusedError
	switch {
	case errors.As(err, &refused) && refused.Remote, errors.Is(err, ErrMagic):
		return nil
	case refused != nil:
		return refused
	}
	return &RefusedError{Code: CodeOther}
}

// printable makes the words of a stranger safe to log.
func printable(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, string(b))
}
