package nodecache

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
)

// A snapshot is a line that says the format's version; when it was taken (Unix
// ms); the identities of the server blocks; the entries; and a checksum of all
// that. Numbers are in network order.
const (
	snapshotHead = "firebreak nodecache 1\n"
	fixedEntry   = 37 // bytes of an entry besides its data
)

var crcTable = crc64.MakeTable(crc64.ECMA)

var errDamaged = errors.New("damaged")

// encode writes the hottest entries of a store, up to most bytes.
func encode(s *store, blocks map[string]uint16, most int64, now clients.Moment) []byte {
	b := []byte(snapshotHead)
	b = binary.BigEndian.AppendUint64(b, uint64(now.Ms))      // #nosec G115 -- positive
	b = binary.BigEndian.AppendUint16(b, uint16(len(blocks))) // #nosec G115 -- their numbers are 16 bits
	for id, n := range blocks {
		b = binary.BigEndian.AppendUint16(b, n)
		b = binary.BigEndian.AppendUint16(b, uint16(min(len(id), math.MaxUint16))) // #nosec G115 -- bounded
		b = append(b, id[:min(len(id), math.MaxUint16)]...)
	}
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	count := uint32(0)
	s.hottest(func(e *entry) bool {
		age := (now.Mono - e.stored) / int64(time.Millisecond)
		if age >= int64(e.ttl+e.hold)*1000 || e.kind.failed() {
			return true
		}
		if int64(len(b)+fixedEntry+e.size()+8) > most {
			return false
		}
		b = e.append(b, age)
		count++
		return true
	})
	binary.BigEndian.PutUint32(b[at:], count)
	return appendSum(b)
}

func appendSum(b []byte) []byte { return binary.BigEndian.AppendUint64(b, crc64.Checksum(b, crcTable)) }

// append appends an entry that was stored age ms ago.
func (e *entry) append(b []byte, age int64) []byte {
	be := binary.BigEndian
	b = be.AppendUint64(b, uint64(age)) // #nosec G115 -- the bits
	b = be.AppendUint32(b, e.ttl)
	b = be.AppendUint32(b, e.hold)
	b = be.AppendUint16(b, e.block)
	b = be.AppendUint16(b, e.qtype)
	b = be.AppendUint16(b, e.bodyLen)
	b = be.AppendUint16(b, e.ttls)
	b = append(b, e.nameLen, e.optLen, uint8(e.kind), e.flags, uint8(e.used.Load()>>8)) // #nosec G115 -- a byte
	b = append(append(b, e.header[:]...), e.counts[:]...)
	return append(b, e.bytes()...)
}

// decode reads a snapshot. known says which number the block of an identity has
// now. put gets every entry that is still good for something, the hottest first.
func decode(b []byte, known map[string]uint16, now clients.Moment, put func(*entry)) (int, error) {
	if !bytes.HasPrefix(b, []byte(snapshotHead)) {
		line, _, _ := bytes.Cut(b[:min(len(b), 64)], []byte("\n"))
		return 0, fmt.Errorf("%w: it begins with %q and not with %q: another version, or no snapshot", errDamaged, line, snapshotHead[:len(snapshotHead)-1])
	}
	if len(b) < len(snapshotHead)+8 || crc64.Checksum(b[:len(b)-8], crcTable) != binary.BigEndian.Uint64(b[len(b)-8:]) {
		return 0, fmt.Errorf("%w: its checksum is wrong", errDamaged)
	}
	r := &reader{b: b[len(snapshotHead) : len(b)-8]}
	passed := max(now.Ms-int64(r.u64()), 0) // #nosec G115 -- checked; a clock that was put back ages nothing
	renumber := make(map[uint16]uint16)
	for range int(r.u16()) {
		n := r.u16()
		if to, is := known[string(r.take(int(r.u16())))]; is {
			renumber[n] = to
		}
	}
	kept := 0
	for range int(r.u32()) {
		e := r.entry(now, passed)
		if e == nil {
			break
		}
		to, is := renumber[e.block]
		if is && now.Mono-e.stored < int64(e.ttl+e.hold)*int64(time.Second) {
			e.block = to
			put(e)
			kept++
		}
	}
	if r.bad || len(r.b) > 0 {
		return 0, fmt.Errorf("%w: its content is not what it says", errDamaged)
	}
	return kept, nil
}

// reader takes numbers off b. Beyond its end they are 0 and bad is set.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	t := r.b[:n]
	r.b = r.b[n:]
	return t
}

func (r *reader) number(n int) (v uint64) {
	for _, b := range r.take(n) {
		v = v<<8 | uint64(b)
	}
	return v
}

func (r *reader) u64() uint64 { return r.number(8) }
func (r *reader) u32() uint32 { return uint32(r.number(4)) } // #nosec G115 -- 4 bytes
func (r *reader) u16() uint16 { return uint16(r.number(2)) } // #nosec G115 -- 2 bytes
func (r *reader) u8() uint8   { return uint8(r.number(1)) }  // #nosec G115 -- 1 byte

// entry reads one, and checks that serving it cannot go wrong.
func (r *reader) entry(now clients.Moment, passed int64) *entry {
	age := int64(r.u64()) + passed // #nosec G115 -- checked below
	e := &entry{ttl: r.u32(), hold: r.u32(), block: r.u16(), qtype: r.u16()}
	e.bodyLen, e.ttls = r.u16(), r.u16()
	e.nameLen, e.optLen = r.u8(), r.u8()
	e.kind, e.flags = kind(r.u8()), r.u8()
	asks := r.u8()
	copy(e.header[:], r.take(2))
	copy(e.counts[:], r.take(6))
	data := r.take(e.size())
	const week = uint32(maxHold / time.Second)
	if r.bad || e.nameLen == 0 || e.kind.failed() || e.kind > unstored || e.flags&^(keyDO|keyCD) != 0 ||
		e.ttl == 0 || e.ttl > week || e.hold > week || age < 0 || age > math.MaxInt64/2/int64(time.Millisecond) {
		r.bad = true
		return nil
	}
	name, body := data[:e.nameLen], data[e.nameLen:][:e.bodyLen]
	n := 0
	for i := 0; i < len(e.counts); i += 2 {
		n += int(binary.BigEndian.Uint16(e.counts[i:]))
	}
	records, err := recordsOf(body, min(n, len(body)))
	if err != nil || len(records) != n || n != int(e.ttls) || !isName(name) {
		r.bad = true
		return nil
	}
	options := data[int(e.nameLen)+int(e.bodyLen):][:e.optLen]
	e.findSpin(body, records[:min(int(binary.BigEndian.Uint16(e.counts[:])), n)])
	e.fill(name, body, options, records)
	e.stored = now.Mono - age*int64(time.Millisecond)
	e.used.Store(uint32(asks)<<8 | 1)
	return e
}

// isName says whether b is one name in wire form.
func isName(b []byte) bool {
	for len(b) > 0 {
		l := int(b[0])
		if l == 0 {
			return len(b) == 1
		}
		if l > 63 || 1+l > len(b) {
			return false
		}
		b = b[1+l:]
	}
	return false
}

// restore fills a new store from a snapshot of at most so many bytes. It never
// fails: a file that is not what it should be is set aside, so that the next one
// does not destroy what a person could still look at.
func (p *process) restore(path string, most int64) {
	began := time.Now()
	content, err := readLocked(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil && !errors.Is(err, errDamaged) {
		log.Warningf("Cannot read the snapshot of the cache, starting cold: %v", err)
		return
	}
	n := 0
	if err == nil {
		var entries []*entry
		n, err = decode(content, p.blocks, clients.Now(), func(e *entry) { entries = append(entries, e) })
		if err == nil {
			for i := len(entries) - 1; i >= 0; i-- { // the hottest last, so that it is the latest
				p.store.put(entries[i], 0)
			}
			log.Infof("Read %d answers from %s in %s", n, path, time.Since(began).Round(time.Millisecond))
			return
		}
	}
	aside := path + ".damaged" // one, however often it happens
	if moved := os.Rename(path, aside); moved != nil {
		log.Warningf("%s is no use (%v) and cannot be set aside: %v; starting cold", path, err, moved)
		return
	}
	log.Warningf("%s is no use (%v): set aside as %s, starting cold", path, err, aside)
}

// save writes the snapshot that the newest Corefile wants.
func (p *process) save() {
	o := p.newest.Load()
	if o == nil || o.snapshot == "" {
		return
	}
	p.mu.Lock()
	content := encode(p.store, p.blocks, o.snapshotSize, clients.Now())
	p.mu.Unlock()
	if err := writeLocked(o.snapshot, content); err != nil {
		log.Warningf("Cannot save the cache: %v", err)
	}
}

// readLocked reads a file under its lock. One that is too long is not read: it may
// be more than there is memory for, at every start again.
func readLocked(path string, most int64) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path) // a pipe would be waited for
	}
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unlock, err := lock(path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		return nil, fmt.Errorf("%w: it has %d bytes, more than the %d that can be used of it", errDamaged, info.Size(), most)
	}
	return io.ReadAll(bufio.NewReader(io.LimitReader(f, most)))
}

// writeLocked replaces a file under its lock: the whole of it or nothing.
func writeLocked(path string, content []byte) error {
	dir := filepath.Dir(path)
	unlock, err := lock(path)
	if err != nil {
		return err
	}
	defer unlock()
	f, err := os.CreateTemp(dir, filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it is gone when all went well
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
