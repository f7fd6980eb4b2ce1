mod converting;
mod fetching;
mod package;
mod reference;
