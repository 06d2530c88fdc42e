"""What the components of this chapter reach on data: one file a page."""
