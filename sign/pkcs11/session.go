//go:build pkcs11

package pkcs11

import (
	"errors"
	"fmt"

	"github.com/miekg/pkcs11"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// session returns an idle session, or opens one and logs in.
func (d *Digester) session() (pkcs11.SessionHandle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.idle); n > 0 {
		s := d.idle[n-1]
		d.idle = d.idle[:n-1]
		return s, nil
	}
	// Modules of network devices connect here, and may hang or fail.
	if err := d.initialize(); err != nil {
		return 0, err
	}
	slot, err := d.slot()
	if err != nil {
		return 0, err
	}
	s, err := d.module.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION)
	if err != nil {
		return 0, err
	}
	if err := d.login(s); err != nil {
		return 0, errors.Join(err, d.module.CloseSession(s))
	}
	return s, nil
}

func (d *Digester) initialize() error {
	if d.ready {
		return nil
	}
	err := d.module.Initialize()
	if err != nil && !is(err, pkcs11.CKR_CRYPTOKI_ALREADY_INITIALIZED) {
		return err
	}
	d.ready = true
	return nil
}

// slot finds the slot of the token by its label.
func (d *Digester) slot() (uint, error) {
	slots, err := d.module.GetSlotList(true)
	if err != nil {
		return 0, err
	}
	for _, slot := range slots {
		if info, err := d.module.GetTokenInfo(slot); err == nil && info.Label == d.options.Token {
			return slot, nil
		}
	}
	return 0, fmt.Errorf("%w: no token is labelled %q", txn.ErrUnavailable, d.options.Token)
}

// login logs in once for all sessions of this process. A PIN that was refused is not tried again,
// because tokens lock after a few attempts.
func (d *Digester) login(s pkcs11.SessionHandle) error {
	if d.loggedIn {
		return nil
	}
	pin, err := sign.ReadPassword(d.options.PINFile)
	if err != nil {
		return err
	}
	if pin == d.refused {
		return fmt.Errorf("%w: the token refused the PIN; correct the PIN file",
			txn.ErrUnavailable)
	}
	err = d.module.Login(s, pkcs11.CKU_USER, pin)
	switch {
	case err == nil, is(err, pkcs11.CKR_USER_ALREADY_LOGGED_IN):
		d.loggedIn, d.refused = true, ""
		return nil
	case is(err, pkcs11.CKR_PIN_INCORRECT), is(err, pkcs11.CKR_PIN_LEN_RANGE),
		is(err, pkcs11.CKR_PIN_INVALID):
		d.refused = pin
	}
	return err
}

// release keeps a session for the next operation. After an error of the module it is closed, and
// all handles are forgotten: the token may have been removed or restarted.
func (d *Digester) release(s pkcs11.SessionHandle, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var code pkcs11.Error
	if !errors.As(err, &code) {
		d.idle = append(d.idle, s)
		return
	}
	_ = d.module.CloseSession(s) // it may be gone already
	clear(d.handles)
	for _, other := range d.idle {
		_ = d.module.CloseSession(other)
	}
	d.idle = nil
	d.loggedIn = false
}
