package config

import (
	"net/url"
	"strings"
	"time"
)

// Issuer is an issuer of JSON web tokens (OpenID Connect) that identify callers.
type Issuer struct {
	Name      string
	URL       string
	Audience  string
	CAFile    string
	ClockSkew time.Duration
	Refresh   time.Duration
}

func issuerSection() field[Config] {
	return list("issuers",
		"Issuers of JSON web tokens (OpenID Connect) that identify callers, beside tokens and "+
			"certificates. The tokens must be signed with a public key of the issuer.",
		func(c *Config) *[]Issuer { return &c.Issuers },
		value("name", label(), "", "The name that callers[].jwt uses.",
			func(i *Issuer) *string { return &i.Name }).must().inFile(),
		value("url", issuerURL(), "",
			"The issuer, exactly as in the claim iss. Its keys are found through "+
				"URL/.well-known/openid-configuration.",
			func(i *Issuer) *string { return &i.URL }).must(),
		value("audience", matching("an audience", `.{1,256}`), "",
			"The audience that tokens must be made for (claim aud).",
			func(i *Issuer) *string { return &i.Audience }).must(),
		file("ca_file",
			"Certificates (PEM) of the authorities that the issuer's certificate is checked "+
				"against. Not set: the authorities of the system.",
			func(i *Issuer) *string { return &i.CAFile }),
		value("clock_skew", span(0, 5*time.Minute), "30s",
			"How long a token is accepted after it has expired, because clocks differ.",
			func(i *Issuer) *time.Duration { return &i.ClockSkew }),
		value("refresh_interval", span(10*time.Second, 24*time.Hour), "5m",
			"How often the keys are read. They are also read when a token has an unknown key. "+
				"While the issuer is unavailable, the last keys stay in force.",
			func(i *Issuer) *time.Duration { return &i.Refresh }),
	)
}

func issuerURL() kind[string] {
	return kind[string]{"URL with https", func(text string) (string, error) {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil ||
			u.Scheme != "https" && !(u.Scheme == "http" && local(u.Hostname())) {
			return bad[string]("write an https URL without user, query and fragment, such as "+
				"https://login.example.org", "%q is not the URL of an issuer", text)
		}
		return text, nil
	}}
}

// callerJWT is the key of the claims that identify a caller.
func callerJWT() field[Caller] {
	return values("jwt",
		matching("ISSUER:CLAIM=VALUE",
			`[a-z][a-z0-9._-]{0,63}:[A-Za-z0-9_:./-]{1,128}=[^,]{1,256}`),
		"Claims of JSON web tokens, one of which identifies the caller: the name of an issuer, "+
			"the claim and its value, such as corp:sub=payments. A claim with a list of values "+
			"needs one of them.",
		func(c *Caller) *[]string { return &c.JWT })
}

// Claim splits an element of jwt.
func Claim(jwt string) (issuer, name, value string) {
	issuer, rest, _ := strings.Cut(jwt, ":")
	name, value, _ = strings.Cut(rest, "=")
	return issuer, name, value
}

// relateIssuers requires that callers name issuers that exist.
func relateIssuers(r *reader, c *Config) {
	known := map[string]bool{}
	for _, i := range c.Issuers {
		known[i.Name] = true
	}
	for i, path := range r.elementPaths["callers"] {
		key := path + ".jwt"
		if !r.good(key) {
			continue
		}
		for _, one := range c.Callers[i].JWT {
			if issuer, _, _ := Claim(one); !known[issuer] {
				r.problem(r.origins[key], key, "there is no issuer "+issuer,
					"add it to issuers, or correct the name")
			}
		}
	}
}
