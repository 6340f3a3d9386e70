package ifc

import "fmt"

// Field is a number in a structure: up to 64 bits in a row, the most significant
// first.
type Field struct{ bit, width uint16 }

// Get is the number in the structure b, which must reach to it.
func (f Field) Get(b []byte) (v uint64) {
	for at, end := f.bit/8, (f.bit+f.width+7)/8; at < end; at++ {
		v = v<<8 | uint64(b[at])
	}
	return v >> f.behind() & f.mask()
}

// Put writes the number into the structure b, which must reach to it. It panics if v
// has more bits than the field.
func (f Field) Put(b []byte, v uint64) {
	if v > f.mask() {
		panic(fmt.Sprintf("ifc: %#x in a field of %d bits", v, f.width))
	}
	mask := f.mask() << f.behind()
	v <<= f.behind()
	for at := int((f.bit+f.width+7)/8) - 1; at >= int(f.bit/8); at-- {
		b[at] = b[at]&^byte(mask) | byte(v)
		mask, v = mask>>8, v>>8
	}
}

// Bool is whether the number is not 0.
func (f Field) Bool(b []byte) bool { return f.Get(b) != 0 }

// Max is the largest number the field holds.
func (f Field) Max() uint64 { return f.mask() }

func (f Field) mask() uint64 { return 1<<f.width - 1 }

// behind is how many bits of the field's last byte are not its own.
func (f Field) behind() uint16 { return -(f.bit + f.width) & 7 }

// structure is a table of rows in the making.
type structure struct {
	source string // mlx5_ifc_*_bits
	size   int    // bytes
}

// row is a field with where it is from, for the test.
type row struct {
	structure, name string
	field           Field
}

var (
	rows  []row
	sizes = map[string]int{}
)

// layout begins the table of a structure of size bytes.
func layout(source string, size int) structure {
	sizes[source] = size
	return structure{source, size}
}

// bits is a field in the 32-bit word at offset, from bit high to low of it.
func (s structure) bits(name string, offset, high, low int) Field {
	return s.row(name, Field{uint16(8*offset + 31 - high), uint16(high - low + 1)})
}

// wide is a field of 64 bits at offset.
func (s structure) wide(name string, offset int) Field {
	return s.row(name, Field{uint16(8 * offset), 64})
}

func (s structure) row(name string, f Field) Field {
	if int(f.bit+f.width) > 8*s.size || f.width == 0 || f.width > 64 {
		panic("ifc: no such field in " + s.source + ": " + name)
	}
	rows = append(rows, row{s.source, name, f})
	return f
}
