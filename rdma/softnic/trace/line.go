package trace

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// line is a line in the making: words and name=value pairs, each after a space.
type line []byte

func (l *line) word(s string) { *l = append(append(*l, ' '), s...) }

// free is text of any kind.
func (l *line) free(s string) { l.word(strings.ReplaceAll(s, "\n", " ")) }

// name starts a pair.
func (l *line) name(s string) { *l = append(append(append(*l, ' '), s...), '=') }

func (l *line) dec(name string, v uint64) {
	l.name(name)
	*l = strconv.AppendUint(*l, v, 10)
}

func (l *line) hex(name string, v uint64) {
	l.name(name)
	*l = strconv.AppendUint(append(*l, "0x"...), v, 16)
}

// text is a pair whose value may be of several words, and is quoted then.
func (l *line) text(name, v string) {
	l.name(name)
	if v == "" || strings.ContainsAny(v, " \"=\n") {
		v = strconv.Quote(v)
	}
	*l = append(*l, v...)
}

// maxBytes is how many bytes a line shows of one thing.
const maxBytes = 256

// bytes are shown in hex, and of more than maxBytes the first and how many follow.
func (l *line) bytes(name string, b []byte) {
	l.name(name)
	more := len(b) - maxBytes
	*l = hex.AppendEncode(*l, b[:min(len(b), maxBytes)])
	if more > 0 {
		*l = fmt.Appendf(*l, "+%d", more)
	}
}

// group encloses what show writes in braces; what is nothing is left out.
func (l *line) group(name string, show func()) {
	before := len(*l)
	*l = append(append(append(*l, ' '), name...), '{')
	at := len(*l)
	show()
	if len(*l) == at {
		*l = (*l)[:before]
		return
	}
	*l = append((*l)[:at], (*l)[at+1:]...) // the space after the brace
	*l = append(*l, '}')
}
