package fakedynamo

import (
	"strings"
	"unicode"
)

type tokenKind uint8

const (
	endToken    tokenKind = iota
	wordToken             // attribute or keyword
	nameToken             // #name
	valueToken            // :value
	quotedToken           // "attribute" in PartiQL
	stringToken           // 'text' in PartiQL
	numberToken
	markToken // punctuation and operators
)

type token struct {
	kind tokenKind
	text string
}

// lex splits an expression or a statement.
func lex(s string) ([]token, error) {
	var tokens []token
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		t, length := next(s)
		if length == 0 {
			return nil, invalid("Invalid expression: Syntax error; token: %q", s[:1])
		}
		tokens, s = append(tokens, t), s[length:]
	}
	return append(tokens, token{}), nil
}

func next(s string) (t token, length int) {
	switch first := s[0]; {
	case first == '#' || (first == ':' && wordLength(s[1:]) > 0):
		n := 1 + wordLength(s[1:])
		kind := nameToken
		if first == ':' {
			kind = valueToken
		}
		return token{kind, s[:n]}, n
	case first == '"' || first == '\'':
		return nextQuoted(s)
	case first >= '0' && first <= '9':
		n := len(s) - len(strings.TrimLeft(s, "0123456789."))
		return token{numberToken, s[:n]}, n
	case wordLength(s) > 0:
		n := wordLength(s)
		return token{wordToken, s[:n]}, n
	}
	for _, mark := range []string{"<>", "<=", ">=", "!=", "<<", ">>"} {
		if strings.HasPrefix(s, mark) {
			return token{markToken, mark}, len(mark)
		}
	}
	if strings.ContainsRune("()[]{},.=<>+-*?:;", rune(s[0])) {
		return token{markToken, s[:1]}, 1
	}
	return token{}, 0
}

// nextQuoted reads to the closing quote; a doubled one stands for itself.
func nextQuoted(s string) (t token, length int) {
	quote, kind := s[:1], quotedToken
	if quote == "'" {
		kind = stringToken
	}
	var text strings.Builder
	for at := 1; ; {
		end := strings.Index(s[at:], quote)
		if end < 0 {
			return token{}, 0
		}
		text.WriteString(s[at : at+end])
		at += end + 1
		if !strings.HasPrefix(s[at:], quote) {
			return token{kind, text.String()}, at
		}
		text.WriteString(quote)
		at++
	}
}

func wordLength(s string) int {
	return len(s) - len(strings.TrimLeftFunc(s, func(r rune) bool {
		return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
	}))
}
