package isolation

import "github.com/weighmaster/weighmaster/schemas"

// Sample is an examination of a box that denies everything, made up for the
// self-check of the judgement: one try of each kind that a real one has.
func Sample() Examination {
	e := Examination{Method: Bubblewrap, Record: map[string]any{}, Facts: map[string]string{}}
	for _, t := range []struct{ attribute, kind, inside string }{
		{schemas.NetworkIsDenied, "loopback", "ECONNREFUSED"}, {schemas.MetadataAddressIsDenied, "loopback", "ENETUNREACH"}, {schemas.CanaryUnreadable, "read", "ENOENT"},
		{schemas.ForeignBinaryDenied, "execute", "EACCES"}, {schemas.HomesHidden, "stat", "ENOENT"}, {schemas.OtherModelsHidden, "read", "ENOENT"},
		{schemas.CredentialsAbsent, "variable", "absent"}, {schemas.AgentSocketsAbsent, "socket", "ENOENT"}, {schemas.SourceReadOnly, "write", "EROFS"},
		{schemas.PrivateTmp, "stat", "ENOENT"}, {schemas.PrivateProc, "process", "ENOENT"}, {schemas.PrivateShm, "segment", "ENOENT"},
	} {
		open := kinds[t.kind].open
		e.Tries = append(e.Tries, Try{Attribute: t.attribute, Kind: t.kind, What: t.kind, Control: true, Before: open, After: open, Inside: t.inside})
	}
	for _, t := range []struct{ attribute, kind, want string }{
		{schemas.UID65534, "user", "65534"}, {schemas.NoCapabilities, "capabilities", "none"}, {schemas.NoNewPrivileges, "privileges", "no new"}, {schemas.ComputationWorks, "computation", "a3c4cc10bd1c6461"},
	} {
		e.Tries = append(e.Tries, Try{Attribute: t.attribute, Kind: t.kind, What: t.kind, Want: t.want, Inside: t.want})
	}
	return e
}

// Opened is a try as it would have ended with a hole in the box.
func Opened(t Try) Try {
	if t.Want != "" {
		t.Inside = "not " + t.Want
	} else {
		t.Inside = kinds[t.Kind].open
	}
	return t
}
