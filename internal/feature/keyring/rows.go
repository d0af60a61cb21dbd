package keyring

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Kind is the kind of the control rows.
const Kind = "keyring"

const (
	keysName     = "keys"    // the row with all keys, so that one conditional write decides
	senderPrefix = "sender/" // a row for each sender: sender/NAME
	rowsForm     = 1         // of the values; a higher one has what this program must not skip

	// The first secret of an installation has a row of its own, which releases without a key ring read, until
	// it is removed from the ring.
	firstKind = "secret"
	firstName = "public-ids"
)

// content is what the rows say.
type content struct {
	keys    []keyRow // by number, and by SealsFrom; at least one
	version uint64   // of their row; 0: there is none yet
	senders []senderRow
}

// keysRow is the value of the row of all keys.
type keysRow struct {
	Form int      `json:"form"`
	Keys []keyRow `json:"keys"`
}

type keyRow struct {
	Number    uint8        `json:"number"`
	Secret    []byte       `json:"secret"`
	Created   task.Instant `json:"created_us,omitempty"` // 0: not known
	SealsFrom task.Instant `json:"seals_from_us,omitempty"`
}

// senderRow is the value of the row of a sender.
type senderRow struct {
	Form    int          `json:"form"`
	Salt    []byte       `json:"salt"`
	Lambdas []string     `json:"lambdas"`
	Created task.Instant `json:"created_us"`
	Revoked task.Instant `json:"revoked_us,omitempty"`

	name    string
	version uint64
}

func decodeKeys(value []byte) ([]keyRow, error) {
	var row keysRow
	err := json.Unmarshal(value, &row)
	switch {
	case err == nil && row.Form > rowsForm:
		return nil, fmt.Errorf("%w: key ring of form %d, this program reads up to %d", store.ErrVersion, row.Form, rowsForm)
	case err != nil || row.Form < 1 || len(row.Keys) == 0 || len(row.Keys) > KeysMax:
		return nil, fmt.Errorf("%w: key ring with %d keys that cannot be decoded", store.ErrCorrupt, len(row.Keys)) // err may hold a secret
	}
	for i, k := range row.Keys {
		if len(k.Secret) != task.TokenKeyBytes {
			return nil, fmt.Errorf("%w: key %d of the key ring has %d bytes, want %d", store.ErrCorrupt, k.Number, len(k.Secret), task.TokenKeyBytes)
		}
		if i > 0 && (k.Number <= row.Keys[i-1].Number || k.SealsFrom < row.Keys[i-1].SealsFrom) || k.Number < task.FirstKey {
			return nil, fmt.Errorf("%w: key %d of the key ring is out of order", store.ErrCorrupt, k.Number)
		}
	}
	return row.Keys, nil
}

func encodeKeys(keys []keyRow, version uint64) (store.Control, error) {
	value, err := json.Marshal(keysRow{rowsForm, keys})
	return store.Control{Kind: Kind, Name: keysName, Version: version, Value: value}, err
}

func decodeSender(c store.Control) (senderRow, error) {
	name, isSender := strings.CutPrefix(c.Name, senderPrefix)
	row := senderRow{name: name, version: c.Version}
	err := json.Unmarshal(c.Value, &row)
	switch {
	case err == nil && row.Form > rowsForm:
		return row, fmt.Errorf("%w: of form %d, this program reads up to %d", store.ErrVersion, row.Form, rowsForm)
	case err != nil || !isSender || row.Form < 1:
		return row, fmt.Errorf("%w: cannot be decoded", store.ErrCorrupt)
	}
	s := row.sender()
	if err := s.Validate(); err != nil {
		return row, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return row, nil
}

func (s *senderRow) encode() (store.Control, error) {
	value, err := json.Marshal(s)
	return store.Control{Kind: Kind, Name: senderPrefix + s.name, Version: s.version, Value: value}, err
}

func (s *senderRow) sender() task.InboundSender {
	return task.InboundSender{Name: s.name, Salt: s.Salt, Lambdas: s.Lambdas, Revoked: s.Revoked != 0}
}

// sealing returns the index of the key that seals: the newest whose time has come.
func (c *content) sealing(now task.Instant) int {
	for i := len(c.keys) - 1; i > 0; i-- {
		if c.keys[i].SealsFrom <= now {
			return i
		}
	}
	return 0
}

// retiredAt returns when a key stops sealing, or stopped; false while it has no successor.
func (c *content) retiredAt(i int) (task.Instant, bool) {
	if i+1 == len(c.keys) {
		return 0, false
	}
	return c.keys[i+1].SealsFrom, true
}
