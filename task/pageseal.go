package task

import "context"

const (
	pageForm     = 1 // the first byte of a page token
	pageMACBytes = 13
	pageHead     = 2 // form and number of the key
)

// PageSealer seals page tokens, which say where the next page of a list begins, so that a list goes on only
// where a server said so. It is safe for concurrent use.
type PageSealer struct{ ring *Keyring }

// Seal returns the token of a position in a list, which list names without a zero byte.
func (s *PageSealer) Seal(list string, position []byte) []byte {
	key := s.ring.seals()
	token := make([]byte, 0, pageHead+pageMACBytes+len(position))
	token = append(token, pageForm, key.number)
	token = append(token, key.pages.sum(list+"\x00", position, nil)[:pageMACBytes]...)
	return append(token, position...)
}

// Open returns the position of a token of the list. A position without a seal is no token.
func (s *PageSealer) Open(ctx context.Context, list string, token []byte) (position []byte, ok bool) {
	if len(token) < pageHead+pageMACBytes || token[0] != pageForm {
		return nil, false
	}
	key, err := s.ring.find(ctx, token[1])
	if err != nil || key.idsOnly {
		return nil, false
	}
	position = token[pageHead+pageMACBytes:]
	return position, key.pages.verify(list+"\x00", position, token[pageHead:pageHead+pageMACBytes])
}
