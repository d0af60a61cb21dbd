package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
)

// account is the folder that stands for an AWS account: TYPE/ID.json holds the attributes of a resource,
// with the id escaped as in a URL's path.
type account string

func (a account) path(kind, id string) string {
	return filepath.Join(string(a), kind, url.PathEscape(id)+".json")
}

func (a account) put(kind string, v values) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	path := a.path(kind, v.text("id"))
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	// Another resource may be looking.
	fresh := path + ".new"
	if err := os.WriteFile(fresh, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// get is nil for what is not there.
func (a account) get(kind, id string) (values, error) {
	text, err := os.ReadFile(a.path(kind, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var v values
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("%s: %w", a.path(kind, id), err)
	}
	return v, nil
}

func (a account) remove(kind, id string) error {
	err := os.Remove(a.path(kind, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
