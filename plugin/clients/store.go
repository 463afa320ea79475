package clients

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// saveEvery is how often the seen table is saved; what a killed process loses.
const saveEvery = 5 * time.Minute

// restore fills a new table from path. It never fails: a server that does not
// know its clients answers them all the same. A file that is not what it should
// be is set aside, so that the next save does not destroy what a person could
// still look at.
func restore(t *Table, path string) {
	content, err := readBounded(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil && !errors.Is(err, errDamaged) {
		log.Warningf("Cannot read the table of clients, starting with none: %v", err)
		return
	}
	n := 0
	if err == nil {
		n, err = t.Load(content)
	}
	if err == nil {
		log.Infof("Read %d clients from %s", n, path)
		return
	}
	aside := path + ".damaged" // one, however often it happens
	if moved := os.Rename(path, aside); moved != nil {
		log.Warningf("%s is no use (%v) and cannot be set aside: %v; starting with no clients", path, err, moved)
		return
	}
	log.Warningf("%s is no use (%v): set aside as %s, starting with no clients", path, err, aside)
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%w: it is longer than %d bytes", errDamaged, limit)
	}
	return b, nil
}

// save writes the table to path: either the whole of it or nothing.
func save(t *Table, path string) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it is gone when all went well
	_, err = f.Write(t.Save(Now()))
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
	return syncDir(dir)
}

// syncDir makes a rename in dir last.
func syncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
