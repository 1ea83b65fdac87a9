// Package pkcs11 signs with keys in a PKCS #11 token: a hardware security module, or SoftHSM. It
// needs cgo, so all but this file is built only with the tag pkcs11.
package pkcs11

// Options locate the token.
type Options struct {
	Module  string // path of the shared library
	Token   string // label
	PINFile string
}
