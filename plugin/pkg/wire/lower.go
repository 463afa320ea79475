package wire

import "encoding/binary"

// Lower makes the ASCII letters of b lower case, eight bytes at a time. A name in
// wire form can be given whole: the lengths of its labels are below 'A'.
func Lower(b []byte) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		low := x &^ highs
		atLeastA := low + (0x80-'A')*ones
		aboveZ := low + (0x80-'Z'-1)*ones
		upper := atLeastA &^ aboveZ &^ x & highs
		binary.LittleEndian.PutUint64(b, x|upper>>2) // 'a' - 'A' is 0x20
		b = b[8:]
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
}
