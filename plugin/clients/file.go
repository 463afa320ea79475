package clients

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
)

// The seen table on disk: a header, the clients one after the other, and the
// xxHash of all that. Numbers are little endian.
//
//	8 bytes  fileMagic
//	u32      fileVersion
//	u32      number of clients
//	i64      when it was written (Unix ms)
//	clients  fileClient bytes each: address (16), first and last (i64 Unix ms),
//	         queries, answers, errors, retries (u64), day of the first daily
//	         count (i32, days since 1970), daily (7 x u32)
//	u64      xxHash
const (
	fileMagic   = "FBSEEN\r\n" // the line end shows a file that was copied as text
	fileVersion = 1
	fileHeader  = 8 + 4 + 4 + 8
	fileClient  = 16 + 2*8 + 4*8 + 4 + 7*4
	fileSum     = 8
	maxFile     = fileHeader + MaxMax*fileClient + fileSum
)

// errDamaged is why a file is set aside.
var errDamaged = errors.New("damaged")

// encodeSeen is the content of a file.
func encodeSeen(clients []seenClient, nowMs int64) []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, fileHeader+len(clients)*fileClient+fileSum)
	b = append(b, fileMagic...)
	b = le.AppendUint32(b, fileVersion)
	b = le.AppendUint32(b, uint32(len(clients))) // #nosec G115 -- at most MaxMax
	b = le.AppendUint64(b, uint64(nowMs))        // #nosec G115 -- as it is
	for i := range clients {
		c := &clients[i]
		b = binary.BigEndian.AppendUint64(b, c.key.hi)
		b = binary.BigEndian.AppendUint64(b, c.key.lo)
		for _, n := range []uint64{uint64(c.first), uint64(c.last), c.queries, c.answers, c.errors, c.retries} { // #nosec G115
			b = le.AppendUint64(b, n)
		}
		b = le.AppendUint32(b, uint32(c.day)) // #nosec G115 -- as it is
		for _, n := range c.daily {
			b = le.AppendUint32(b, n)
		}
	}
	return le.AppendUint64(b, xxhash.Sum64(b))
}

// decodeSeen reads the content of a file. It trusts nothing: what it takes, it
// could have written.
func decodeSeen(b []byte) ([]seenClient, error) {
	le := binary.LittleEndian
	if len(b) < fileHeader+fileSum || string(b[:8]) != fileMagic {
		return nil, fmt.Errorf("%w: it is no table of clients", errDamaged)
	}
	if v := le.Uint32(b[8:]); v != fileVersion {
		return nil, fmt.Errorf("%w: its format's version is %d, this build reads %d", errDamaged, v, fileVersion)
	}
	n := le.Uint32(b[12:])
	if n > MaxMax || len(b) != fileHeader+int(n)*fileClient+fileSum {
		return nil, fmt.Errorf("%w: %d bytes cannot hold %d clients", errDamaged, len(b), n)
	}
	body, sum := b[:len(b)-fileSum], b[len(b)-fileSum:]
	if xxhash.Sum64(body) != le.Uint64(sum) {
		return nil, fmt.Errorf("%w: its checksum is wrong", errDamaged)
	}
	out := make([]seenClient, n)
	have := make(map[addrKey]struct{}, n)
	for i := range out {
		p := body[fileHeader+i*fileClient:]
		c := &out[i]
		c.key = addrKey{binary.BigEndian.Uint64(p), binary.BigEndian.Uint64(p[8:])}
		if _, twice := have[c.key]; twice {
			return nil, fmt.Errorf("%w: %s is in it twice", errDamaged, c.key.addr())
		}
		have[c.key] = struct{}{}
		first, last := le.Uint64(p[16:]), le.Uint64(p[24:])
		if first > last || last > math.MaxInt64 {
			return nil, fmt.Errorf("%w: the times of %s are in the wrong order", errDamaged, c.key.addr())
		}
		c.first, c.last = int64(first), int64(last)
		c.queries, c.answers = le.Uint64(p[32:]), le.Uint64(p[40:])
		c.errors, c.retries = le.Uint64(p[48:]), le.Uint64(p[56:])
		c.day = int32(le.Uint32(p[64:])) // #nosec G115 -- as it was written
		if c.day < 0 {
			return nil, fmt.Errorf("%w: the day of %s is before 1970", errDamaged, c.key.addr())
		}
		for d := range c.daily {
			c.daily[d] = le.Uint32(p[68+4*d:])
		}
	}
	return out, nil
}

// Load puts clients from a file's content into the table, which must be new.
// With more than it has room for, those seen last are taken.
func (t *Table) Load(content []byte) (int, error) {
	clients, err := decodeSeen(content)
	if err != nil {
		return 0, err
	}
	for i := range clients {
		c := &clients[i]
		c.hash = t.seed.addr(c.key)
		c.scored = c.queries // what was before this process is not of late
	}
	t.admission.Lock()
	defer t.admission.Unlock()
	t.lockAll()
	defer t.unlockAll()
	was := t.dropped.Load()
	t.fill(clients)
	t.dropped.Store(was) // they were dropped by whoever made the table smaller
	return min(len(clients), t.max), nil
}

// Save is the table as the content of a file.
func (t *Table) Save(now Moment) []byte { return encodeSeen(t.snapshot(), now.Ms) }
