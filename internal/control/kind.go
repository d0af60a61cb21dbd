package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/kinesin-io/kinesin/store"
)

// Meta is what a Book keeps with a value of its row. A type that has rows embeds it, with the tag `json:"-"`.
type Meta struct {
	Version uint64 // of the row; 0: there is none yet

	buried bool
	row    *store.Control // as it was read or written last, for members that this version does not know; nil: neither
}

// IsBuried reports whether the value is among those that have ended.
func (m *Meta) IsBuried() bool { return m.buried }

func (m *Meta) meta() *Meta { return m }

func metaOf[T any](t *T) *Meta {
	kept, _ := any(t).(interface{ meta() *Meta }) // who embeds Meta has the method
	return kept.meta()
}

// Kind says how values of a type, which embeds Meta, are kept as rows. What another version of the program added to a
// row, as members of its object, stays when the row is changed here.
type Kind[T any] struct {
	Live  string            // kind of the rows of values that have not ended
	Ended string            // kind of the others; empty: values that end are deleted
	What  string            // what a value is, for people
	Name  func(t *T) string // of its row

	Read func(name string, value []byte, t *T) error // reads what json.Marshal stored; nil: json.Unmarshal
}

// Decode reads a row.
func (k *Kind[T]) Decode(row store.Control) (*T, error) {
	var err error
	t := new(T)
	if k.Read != nil {
		err = k.Read(row.Name, row.Value, t)
	} else {
		err = json.Unmarshal(row.Value, t)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s %s: %w", store.ErrCorrupt, k.What, row.Name, err)
	}
	*metaOf(t) = k.metaFor(&row)
	return t, nil
}

func (k *Kind[T]) metaFor(row *store.Control) Meta {
	return Meta{Version: row.Version, buried: k.Ended != "" && row.Kind == k.Ended, row: row}
}

// Encode returns the row of a value that has not ended, in place of the version that it was read at.
func (k *Kind[T]) Encode(t *T) (store.Control, error) { return k.encode(k.Live, t) }

func (k *Kind[T]) encode(kind string, t *T) (store.Control, error) {
	m := metaOf(t)
	value, err := json.Marshal(t)
	if err == nil && m.row != nil {
		value, err = WithUnknown[T](value, m.row.Value)
	}
	if err != nil {
		return store.Control{}, fmt.Errorf("encode %s %s: %w", k.What, k.Name(t), err)
	}
	return store.Control{Kind: kind, Name: k.Name(t), Version: m.Version + 1, Value: value}, nil
}

// WithUnknown adds to an encoded T, a struct, the members of an older one that this version does not know: what a
// newer version wrote is kept when a row is changed here.
func WithUnknown[T any](value, older []byte) ([]byte, error) {
	var kept, all map[string]json.RawMessage
	if json.Unmarshal(older, &kept) != nil {
		return value, nil //nolint:nilerr // what is no object has no members
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		delete(kept, name)
	}
	if len(kept) == 0 {
		return value, nil
	}
	if err := json.Unmarshal(value, &all); err != nil {
		return nil, err
	}
	maps.Copy(all, kept)
	return json.Marshal(all)
}
