package store

import (
	"encoding/binary"
	"fmt"
)

// controlVersion is the format of control rows, which have a header of their own.
const controlVersion = 1

// AppendControl appends the encoded value of a control row; kind and name are its key.
func AppendControl(dst []byte, c *Control) []byte {
	dst = append(dst, controlVersion)
	dst = binary.BigEndian.AppendUint64(dst, c.Version)
	return append(dst, c.Value...)
}

// DecodeControl reads what AppendControl wrote; Value of the result is a part of row.
func DecodeControl(kind, name string, row []byte) (Control, error) {
	if len(row) > 0 && row[0] > controlVersion {
		return Control{}, fmt.Errorf("%w: control row %s %q has format %d, this program knows up to %d", ErrVersion, kind, name, row[0], controlVersion)
	}
	if len(row) < 9 || row[0] == 0 {
		return Control{}, fmt.Errorf("%w: control row %s %q of %d bytes", ErrCorrupt, kind, name, len(row))
	}
	return Control{Kind: kind, Name: name, Version: binary.BigEndian.Uint64(row[1:]), Value: row[9:]}, nil
}
