package claims

// Schema returns the name of the schema that has the tables.
func (k *Keeper) Schema() string { return k.cfg.Schema }

// FenceSQL returns a query that finds and locks the grant's row, as LockRow does, for a larger statement.
func (c *Claim) FenceSQL() (sql string, args []any) { return c.s.k.sql.fence, []any{c.s.id, c.seq} }
