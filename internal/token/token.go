// Package token implements the bearer tokens of callers: their format, the file that holds them, and how they
// are sent and compared. A token is a secret: no error of this package quotes one.
package token

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/livefile"
)

// Limits of a file of tokens.
const (
	CharsMin     = 32   // of a token, so that it cannot be guessed
	CharsMax     = 8192 // as long as the JWT of an issuer with many claims
	TokensMax    = 64
	FileBytesMax = 64 << 10
)

var errNone = errors.New("it holds no token: want one per line, such as what `openssl rand -hex 32` prints")

// Parse reads tokens, one per line. It skips empty lines and those that begin with #.
func Parse(content []byte) ([]string, error) {
	var all []string
	number := 0
	for line := range bytes.Lines(content) {
		number++
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		if err := check(text); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if len(all) == TokensMax {
			return nil, fmt.Errorf("line %d: it holds more than %d tokens", number, TokensMax)
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return nil, errNone
	}
	return all, nil
}

func check(text string) error {
	if len(text) < CharsMin || len(text) > CharsMax {
		return fmt.Errorf("a token of %d characters: want %d to %d, such as what `openssl rand -hex 32` prints", len(text), CharsMin, CharsMax)
	}
	if strings.ContainsFunc(text, func(c rune) bool { return !isTokenChar(c) }) {
		return errors.New("a token with an invalid character: want A-Z, a-z, 0-9 and -._~+/=")
	}
	return nil
}

// isTokenChar reports whether RFC 6750 allows a character in a bearer token.
func isTokenChar(c rune) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.ContainsRune("-._~+/=", c)
}

// Set is a set of accepted tokens. It holds only their hashes.
type Set struct{ hashes [][sha256.Size]byte }

// NewSet returns a set of these tokens.
func NewSet(tokens []string) Set {
	s := Set{hashes: make([][sha256.Size]byte, len(tokens))}
	for i, t := range tokens {
		s.hashes[i] = sha256.Sum256([]byte(t))
	}
	return s
}

// Holds reports whether the set holds the token. The time it takes does not depend on the tokens.
func (s Set) Holds(token string) bool { return s.HoldsHash(sha256.Sum256([]byte(token))) }

// HoldsHash is Holds for the SHA-256 of a token.
func (s Set) HoldsHash(hash [sha256.Size]byte) bool {
	found := 0
	for i := range s.hashes {
		found |= subtle.ConstantTimeCompare(hash[:], s.hashes[i][:])
	}
	return found == 1
}

// OpenSet reads the tokens that a server accepts from a file, and reloads them when it changes.
func OpenSet(path string, c clock.Clock, changed func(error)) (*livefile.Files[Set], error) {
	return livefile.Open(livefile.Config[Set]{
		Paths: []string{path}, BytesMax: FileBytesMax, Clock: c, Changed: changed,
		Parse: func(contents [][]byte) (Set, error) {
			tokens, err := Parse(contents[0])
			return NewSet(tokens), err
		},
	})
}

// OpenFirst reads the token that a client sends, the first one in a file, and reloads it when the file
// changes.
func OpenFirst(path string, c clock.Clock, changed func(error)) (*livefile.Files[string], error) {
	return livefile.Open(livefile.Config[string]{
		Paths: []string{path}, BytesMax: FileBytesMax, Clock: c, Changed: changed,
		Parse: func(contents [][]byte) (string, error) {
			tokens, err := Parse(contents[0])
			if err != nil {
				return "", err
			}
			return tokens[0], nil
		},
	})
}

const (
	header = "Authorization"
	scheme = "Bearer"
)

// Put adds the token to the headers of a request.
func Put(h http.Header, token string) { h.Set(header, scheme+" "+token) }

// Of returns the token of a request; empty if the header has another form. present: there is such a header.
func Of(h http.Header) (token string, present bool) {
	value := h.Get(header)
	name, token, found := strings.Cut(value, " ")
	if !found || !strings.EqualFold(name, scheme) {
		return "", value != ""
	}
	return strings.TrimSpace(token), true
}
